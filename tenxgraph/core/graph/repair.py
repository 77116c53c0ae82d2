"""What a model is sent: the context as every provider takes it, whatever happened to the thread.

Providers refuse a conversation, for good, in which a tool call has no result right after it or a
result has no call. The stored context stays as it is; this is a view of it.
"""

import re
from collections.abc import Sequence

from tenxgraph.core.graph.calls import Turn, is_json_object, turn_at
from tenxgraph.core.state import Message, ToolCall

__all__ = ["NO_RESULT", "sendable"]

NO_RESULT = "There is no result: the conversation went on before the tool reported one."

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
# OpenAI refuses ids of more than 40 characters.
_LONGEST_STEM = 32


def sendable(context: Sequence[Message]) -> list[Message]:
    """The context, where every tool call has exactly one result right after it.

    Results without a call and empty answers are left out. Call ids are unique, and not empty;
    names and arguments are such as providers accept.
    """
    sent: list[Message] = []
    ids = _UniqueIds()
    for index, message in enumerate(context):
        if message.role == "assistant" and message.tool_calls:
            sent.extend(_repaired(turn_at(context, index), ids))
        elif message.role != "tool" and not _is_empty(message):
            sent.append(message)
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
    results = map(_answering, turn.results, calls)
    return [message, *results]


def _answering(result: Message | None, call: ToolCall) -> Message:
    if result is None:
        return Message.tool_message(NO_RESULT, call.id, name=call.name, is_error=True)
    if result.tool_call_id == call.id:
        return result
    return result.model_copy(update={"tool_call_id": call.id})


def _accepted(call: ToolCall, unique_id: str) -> ToolCall:
    changes: dict[str, object] = {}
    if call.id != unique_id:
        changes["id"] = unique_id
    name = _NOT_IN_A_NAME.sub("_", call.name)[:_LONGEST_NAME] or "unknown"
    if name != call.name:
        changes["name"] = name
    if call.arguments is not None and not is_json_object(call.arguments):
        # The error result says what was wrong with them.
        changes["arguments"] = "{}"
    return call.model_copy(update=changes) if changes else call


def _is_empty(message: Message) -> bool:
    """Whether it is an answer that says nothing."""
    if message.role != "assistant" or message.text():
        return False
    written = message.to_openai()
    return not written["content"] and set(written) == {"role", "content"}
