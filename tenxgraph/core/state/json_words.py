"""JSON in words: what kind a value is, and what a tool's output says."""

import contextlib
import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["as_json", "json_text", "output_text", "word_for"]

_DEEPEST = 200
# Python turns any integer of up to 640 digits into text, whatever its limit is set to.
_LARGEST_INT_BITS = 2_100


def word_for(value: Any) -> str:
    """Return what JSON calls a value, for an error text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def output_text(output: Any) -> str:
    """Return a tool's output as text: text as it is, all else as JSON. Never raises."""
    return output if isinstance(output, str) else json_text(output)


def json_text(value: Any, **options: Any) -> str:
    """Return a value as JSON text, with words for what JSON cannot hold. Never raises.

    A value that cannot be told would make every later turn of its thread fail.

    Args:
        value: the value.
        options: for `json.dumps`.
    """
    try:
        return json.dumps(value, ensure_ascii=False, **options)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(as_json(value), ensure_ascii=False, **options)


def as_json(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON holds it: null for NaN and the infinities, words for all else."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and value.bit_length() <= _LARGEST_INT_BITS:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {_words(key): as_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item, depth + 1) for item in value]
    return _words(value)


def _words(value: Any) -> str:
    # Python refuses to write an integer of many thousand digits, and a value's own `str` may fail.
    for form in (str, hex):
        with contextlib.suppress(Exception):
            return form(value)
    return f"A value of type {type(value).__name__}, which cannot be told."
