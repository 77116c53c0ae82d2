"""JSON in words: what kind a value is, and what a tool's output says."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["output_text", "word_for"]


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
    if isinstance(output, str):
        return output
    # An output that cannot be told would make every later turn of its thread fail. Python refuses
    # to write an integer of many thousand digits, in JSON as in its own words.
    for form in (_json_text, str):
        with contextlib.suppress(Exception):
            return form(output)
    return f"A value of type {type(output).__name__}, which cannot be told."


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
