"""JSON: how values leave the server. What JSON cannot say is told in words, and never an error."""

import base64
import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, time
from enum import Enum
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic_core import from_json

from tenxgraph.core.state import Message

__all__ = ["Answer", "as_json", "to_bytes"]

_DEEPEST = 100
_LARGEST = 2**63
# What the provider sent besides is no part of the conversation.
_HIDDEN: dict[type, set[str]] = {Message: {"raw"}}


class Answer(JSONResponse):
    """An answer whose content is any value."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return to_bytes(content)


def to_bytes(value: Any) -> bytes:
    """A value as JSON text in UTF-8."""
    return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":")).encode()


def as_json(value: Any, depth: int = 0) -> Any:
    """A value as what JSON can say: text, numbers, lists, dicts with text as keys.

    Half a surrogate pair becomes `?`, a number that is none `None`, bytes base64, an integer of
    more than 64 bits text, and anything else what `str` makes of it.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST <= value < _LARGEST else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > _DEEPEST:
        return "..."
    return _structure(value, depth + 1)


def _structure(value: Any, depth: int) -> Any:
    if isinstance(value, BaseModel):
        return _model(value, depth)
    if isinstance(value, Mapping):
        return {_text(_word(key)): as_json(item, depth) for key, item in value.items()}
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Enum):
        return as_json(value.value, depth)
    if isinstance(value, date | time):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {one.name: as_json(getattr(value, one.name), depth) for one in fields}
    if isinstance(value, Iterable) and not isinstance(value, type):
        return [as_json(item, depth) for item in value]
    return _text(_word(value))


def _model(value: BaseModel, depth: int) -> Any:
    hidden = _HIDDEN.get(type(value), set())
    try:
        # The quick way, which knows nothing of the odd values.
        return from_json(value.model_dump_json(exclude=hidden))
    except Exception:  # noqa: BLE001 - whatever a field holds, it is told in some way
        fields = {**value.__dict__, **(value.model_extra or {})}
        shown = {name: item for name, item in fields.items() if name not in hidden}
        return as_json(shown, depth)


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _word(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a class of somebody's own
        return f"<{type(value).__name__}>"
