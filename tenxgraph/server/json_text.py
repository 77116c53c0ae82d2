"""JSON: how values leave the server. What JSON cannot say is told in words, and never an error."""

import base64
import contextlib
import dataclasses
import itertools
import json
import math
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import date, time
from enum import Enum
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic_core import from_json

from tenxgraph.core.state import AgentState, Message, ToolCall
from tenxgraph.core.state.unicode import valid_text

__all__ = ["Answer", "as_json", "to_bytes"]

_DEEPEST = 100
_MOST_VALUES = 200_000
_CUT = "..."
_LARGEST = 2**63
# What the provider sent besides is no part of the conversation.
_HIDDEN: dict[type, dict[str, Any]] = {
    Message: {"raw": True, "tool_calls": {"__all__": {"raw"}}},
    ToolCall: {"raw": True},
}


class Answer(JSONResponse):
    """An answer whose content is any value."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return to_bytes(content)


def to_bytes(value: Any) -> bytes:
    """A value as JSON text in UTF-8."""
    return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":")).encode()


def as_json(value: Any) -> Any:
    """A value as what JSON can say: text, numbers, lists, dicts with text as keys.

    Half a surrogate pair becomes U+FFFD, a number that is none `None`, bytes base64, an integer of
    more than 64 bits text, and anything else what `str` makes of it. What holds itself, or is
    deeper or larger than anybody could read, is cut short with `...`.
    """
    return _Teller().tell(value)


class _Teller:
    """Tells one value, of which no more than a reader could want."""

    def __init__(self) -> None:
        self._above: set[int] = set()
        """What is being told: met again inside of itself, it would have no end."""
        self._left = _MOST_VALUES

    def tell(self, value: Any) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, int):
            return int(value) if -_LARGEST <= value < _LARGEST else hex(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if id(value) in self._above or len(self._above) > _DEEPEST or self._left < 0:
            return _CUT
        self._above.add(id(value))
        try:
            return self._structure(value)
        except Exception:  # noqa: BLE001 - a class of somebody's own
            return _text(_word(value))
        finally:
            self._above.discard(id(value))

    def _structure(self, value: Any) -> Any:
        if isinstance(value, BaseModel):
            return self._model(value)
        if isinstance(value, Mapping):
            return {_text(_word(key)): self.tell(item) for key, item in self._few(value.items())}
        if isinstance(value, bytes | bytearray):
            return base64.b64encode(value).decode()
        if isinstance(value, Enum):
            return self.tell(value.value)
        if isinstance(value, date | time):
            return value.isoformat()
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return {one.name: self.tell(getattr(value, one.name, None)) for one in fields}
        if isinstance(value, list | tuple | set | frozenset | deque):
            return [self.tell(item) for item in self._few(value)]
        return _text(_word(value))

    def _model(self, value: BaseModel) -> Any:
        declared = type(value).model_fields
        hidden = _HIDDEN.get(type(value), {})
        hidden = hidden | {name: True for name, field in declared.items() if field.exclude}
        # The quick way knows nothing of odd values, and hides nothing of messages in fields.
        if not isinstance(value, AgentState):
            with contextlib.suppress(Exception):
                return from_json(value.model_dump_json(exclude=hidden))
        fields = {**value.__dict__, **(value.model_extra or {})}
        return self.tell(
            {name: item for name, item in fields.items() if hidden.get(name) is not True}
        )

    def _few(self, items: Iterable[Any]) -> Iterable[Any]:
        return itertools.islice(items, max(0, self._left) + 1)


def _text(text: str) -> str:
    return valid_text(str(text))


def _word(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a class of somebody's own
        return f"<{type(value).__name__}>"
