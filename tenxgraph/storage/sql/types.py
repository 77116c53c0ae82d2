"""Column types that hide the dialect, and what a dialect cannot hold."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, ColumnElement, DateTime, Dialect, Text, cast, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator, TypeEngine

from tenxgraph.core.state.nesting import on_fresh_stack

__all__ = ["EscapedText", "JsonText", "SearchableJson", "UtcDateTime", "escape", "escaped"]

# A private-use character introduces what PostgreSQL's text cannot hold: NUL, a lone surrogate, and
# that very character.
_ESCAPE = "\ue000"
_UNSTORABLE = re.compile(f"[\x00\ud800-\udfff{_ESCAPE}]")
_ESCAPED = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")


def escape(text: str) -> str:
    """Text without characters that a text column refuses; ordinary text is unchanged."""
    return _UNSTORABLE.sub(lambda match: f"{_ESCAPE}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """What `escape` was given."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _map_strings(tree: Any, change: Callable[[str], str]) -> Any:
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, dict):
        return {change(key): _map_strings(value, change) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_map_strings(value, change) for value in tree]
    return tree


def escaped(tree: Any) -> Any:
    """JSON in which every string is escaped, keys included."""
    return on_fresh_stack(_map_strings, tree, escape)


class EscapedText(TypeDecorator[str]):
    """Free text of any length and any characters, NUL included."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        """Escape on the way in."""
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> str | None:
        """Restore on the way out."""
        return None if value is None else unescape(value)


class JsonText(TypeDecorator[str]):
    """JSON that is carried, not searched: text in, the very same text out.

    `JSON` rather than `JSONB` on PostgreSQL: it keeps key order, numbers of any size and the
    escape of NUL, and is cheaper to insert. Python sees the text, which is decoded by our own
    codec or passed on as it is.
    """

    impl = JSON
    cache_ok = True

    def bind_processor(self, _dialect: Dialect) -> None:
        """Leave the text as it is, where `JSON` would encode it once more."""

    def result_processor(self, _dialect: Dialect, _coltype: object) -> None:
        """Leave the text as it is, where `JSON` would decode it."""

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Read as text: an engine of the caller's own may have drivers decode JSON."""
        return type_coerce(cast(column, Text), self)

    def literal_processor(self, _dialect: Dialect) -> Callable[[str], str]:
        """Render the text as an SQL literal."""
        return lambda value: "'" + value.replace("'", "''") + "'"


class SearchableJson(TypeDecorator[Any]):
    """JSON that is searched: `JSONB` on PostgreSQL. Strings of any characters come back."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """`JSONB` where there is one."""
        kind: TypeEngine[Any] = JSONB() if dialect.name == "postgresql" else JSON()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        """Escape the strings on the way in."""
        return escaped(value)

    def process_result_value(self, value: Any, _dialect: Dialect) -> Any:
        """Restore the strings on the way out, whether or not the driver has decoded the JSON."""
        tree = on_fresh_stack(json.loads, value) if isinstance(value, str) else value
        return on_fresh_stack(_map_strings, tree, unescape)

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """Compare as the dialect's own JSON type does."""
        return self.impl_instance.coerce_compared_value(op, value)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: aware in, UTC out, on every dialect."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive values; SQLite, which knows no zones, gets UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            message = f"{value!r} has no time zone."
            raise ValueError(message)
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Give every value its zone back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
