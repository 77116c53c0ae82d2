"""What a model is sent: the context as every provider takes it, whatever happened to the thread.

Providers refuse a conversation, for good, in which a tool call has no result right after it or a
result has no call. The stored context stays as it is; this is a view of it.
"""

import re
from collections.abc import Sequence
from typing import Any

from tenxgraph.core.graph.calls import Turn, is_json_object, turn_at
from tenxgraph.core.state import Message, TextBlock, ToolCall
from tenxgraph.core.state.openai_format import came_in_parts, with_usual_spelling
from tenxgraph.core.state.openai_parts import is_media

__all__ = ["NO_RESULT", "sendable"]

NO_RESULT = "There is no result: the conversation went on before the tool reported one."

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
# An answer without content, and without calls, that says something all the same.
_SAID = ("refusal", "audio", "function_call")
# OpenAI refuses ids of more than 40 characters.
_LONGEST_STEM = 32


def sendable(context: Sequence[Message]) -> list[Message]:
    """The context, where every tool call has exactly one result right after it.

    Results without a call and empty answers are left out. Call ids are unique, and not empty;
    names and arguments are such as providers accept. What a provider sent besides stays, but for
    nulls. Images and files of a tool's result follow the results in a user's message.
    """
    sent: list[Message] = []
    ids = _UniqueIds()
    for index, message in enumerate(context):
        if message.role == "assistant" and message.tool_calls:
            sent.extend(_repaired(turn_at(context, index), ids))
        elif message.role != "tool" and not _is_empty(message):
            sent.append(_without_odd_keys(message))
    return sent


class _UniqueIds:
    """Gives each call an id of its own; the first to have an id keeps it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, call: ToolCall) -> str:
        stem = call.id or "call"
        unique, number = stem, 1
        if not call.id or unique in self._taken:
            while (unique := f"{stem[:_LONGEST_STEM]}_{number}") in self._taken:
                number += 1
        self._taken.add(unique)
        return unique


def _repaired(turn: Turn, ids: _UniqueIds) -> list[Message]:
    calls = tuple(_accepted(call, ids.of(call)) for call in turn.calls)
    message = turn.message
    if calls != message.tool_calls:
        message = message.model_copy(update={"tool_calls": calls})
    results = [*map(_answering, turn.results, calls)]
    return [_without_odd_keys(message), *results, *_shown(results)]


def _answering(result: Message | None, call: ToolCall) -> Message:
    if result is None:
        return Message.tool_message(NO_RESULT, call.id, name=call.name, is_error=True)
    if result.tool_call_id != call.id:
        result = result.model_copy(update={"tool_call_id": call.id})
    return _without_odd_keys(result)


def _shown(results: Sequence[Message]) -> list[Message]:
    """Return a user's message with the images and files of results, which take only text."""
    content: list[Any] = []
    for result in results:
        media = [] if came_in_parts(result) else [b for b in result.content if is_media(b)]
        if media:
            content += [TextBlock(text=f"From the result of {result.tool_call_id}:"), *media]
    return [Message(role="user", content=tuple(content))] if content else []


def _accepted(call: ToolCall, unique_id: str) -> ToolCall:
    changes: dict[str, object] = {}
    if call.id != unique_id:
        changes["id"] = unique_id
    if call.type in ("function", "custom"):  # what else there is has names of its own
        name = _NOT_IN_A_NAME.sub("_", call.name)[:_LONGEST_NAME] or "unknown"
        if name != call.name:
            changes["name"] = name
    is_text = call.type == "function" and call.arguments is not None
    if is_text and not is_json_object(call.arguments or ""):
        # The error result says what was wrong with them.
        changes["arguments"] = "{}"
    return with_usual_spelling(call.model_copy(update=changes) if changes else call)


def _without_odd_keys(message: Message) -> Message:
    """Leave out nulls, and lists of calls with something else in them: servers refuse both."""
    if not isinstance(message.raw, dict):
        return message
    raw = {k: v for k, v in message.raw.items() if v is not None and k != "tool_calls"}
    return message if raw == message.raw else message.model_copy(update={"raw": raw or None})


def _is_empty(message: Message) -> bool:
    """Return True for an answer that says nothing; thoughts alone are refused as empty, too."""
    if message.role != "assistant" or message.text():
        return False
    written = message.to_openai()
    content = written.get("content")
    parts = [one for one in content if not _is_text(one)] if isinstance(content, list) else content
    return not parts and not any(written.get(key) for key in _SAID)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"
