"""SQLite: what only this dialect says."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Dialect, Table, TypeDecorator, bindparam, func, select
from sqlalchemy.dialects import sqlite

from tenxgraph.storage.records import utc_now
from tenxgraph.storage.sql.types import UtcDateTime, escape, escaped

__all__ = ["SqliteDialect"]


class _FromNow(TypeDecorator[datetime]):
    """A timedelta that is written as the moment when it will have passed."""

    impl = UtcDateTime
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> datetime | None:
        """Count from the moment of the statement."""
        return None if value is None else utc_now() + value


class SqliteDialect:
    """What SQLite answers."""

    def insert(self, table: Table) -> sqlite.Insert:
        """An INSERT that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
        return sqlite.insert(table)

    def now(self) -> ColumnElement[datetime]:
        """This moment: a file is used on one machine, which has one clock."""
        return bindparam("p_now", callable_=utc_now, type_=UtcDateTime)

    def from_now(self, name: str) -> ColumnElement[datetime]:
        """The moment when the timedelta bound as `name` will have passed; NULL if it is none."""
        return bindparam(name, type_=_FromNow)

    def json_has(self, column: ColumnElement[Any], key: str, value: Any) -> ColumnElement[bool]:
        """Whether a JSON object has `key` with this very value."""
        entry = func.json_each(column).table_valued("key", "value", "atom", "type")
        # The key is a bound value: a JSON path would have to be built from it.
        entry_of_key = select(1).select_from(entry).where(entry.c.key == escape(key))
        if value is None or isinstance(value, bool):
            found = entry_of_key.where(entry.c.type == str(value).lower().replace("none", "null"))
        elif isinstance(value, str):
            found = entry_of_key.where(entry.c.type == "text", entry.c.atom == escape(value))
        elif isinstance(value, dict):
            text = func.json(json.dumps(escaped(value)))
            found = entry_of_key.where(entry.c.type == "object", entry.c.value == text)
        else:
            # An int that SQLite cannot hold is a REAL to json_each as well.
            number = float(value) if abs(value) >= 2**63 else value
            found = entry_of_key.where(
                entry.c.type.in_(("integer", "real")), entry.c.atom == number
            )
        return found.exists()
