"""The rules by which providers refuse a conversation, so that a test sees what production would."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["broken_rules"]

_SAYS = ("content", "tool_calls", "refusal", "audio", "function_call")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def broken_rules(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a provider would refuse in a conversation in OpenAI's format; empty if nothing.

    Every tool call has exactly one result, right after the message that calls, and every result a
    call; call ids are neither empty nor used twice; names are names, arguments are JSON objects;
    no assistant's message is empty; something is there at all.
    """
    if not messages:
        return ["there are no messages"]
    problems: list[str] = []
    seen: set[str] = set()
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") in open_ids:
                open_ids.remove(message["tool_call_id"])
            else:
                problems.append(f"message {place} is a result without a call")
            continue
        problems += [f"call {one!r} has no result right after it" for one in open_ids]
        open_ids = [call["id"] for call in message.get("tool_calls") or ()]
        problems += _broken_calls(place, message, seen)
        seen.update(open_ids)
    return problems + [f"call {one!r} has no result" for one in open_ids]


def _broken_calls(place: int, message: Mapping[str, Any], seen: set[str]) -> list[str]:
    calls = message.get("tool_calls") or ()
    problems: list[str] = []
    if message["role"] == "assistant" and not any(message.get(key) for key in _SAYS):
        problems.append(f"message {place} is an empty answer")
    ids = [call["id"] for call in calls]
    for position, call in enumerate(calls):
        if not call["id"] or call["id"] in seen or call["id"] in ids[:position]:
            problems.append(f"message {place} has a call with the id {call['id']!r}")
        kind = call.get("type", "function")
        if kind not in ("function", "custom"):
            continue  # only its provider knows the form
        said = call[kind]
        if not _NAME.fullmatch(said["name"]):
            problems.append(f"message {place} calls {said['name']!r}")
        if "arguments" in said and not _is_object(said["arguments"]):
            problems.append(f"message {place} has arguments that are no JSON object")
    return problems


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
