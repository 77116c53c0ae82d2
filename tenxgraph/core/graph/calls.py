"""Tool calls and their results: which result answers which call, and which have none."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tenxgraph.core.state import Message, ToolCall

__all__ = [
    "Turn",
    "cut_reason",
    "is_cut",
    "is_empty_object",
    "is_json_object",
    "last_turn",
    "turn_at",
]


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant's message that calls tools, and what answered it."""

    index: int
    """Where the message is in the context."""
    message: Message
    results: tuple[Message | None, ...]
    """The result of each call, by its position; `None` where there is none."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """What the message asks for."""
        return self.message.tool_calls

    @property
    def open(self) -> list[int]:
        """The positions of the calls without a result."""
        return [position for position, result in enumerate(self.results) if result is None]


def turn_at(context: Sequence[Message], index: int) -> Turn:
    """The calls of the message at `index`, with their results.

    A result belongs to the first call of its id that has none yet, between this message and the
    assistant's next one: ids repeat within a thread, and even within a message.
    """
    message = context[index]
    results: list[Message | None] = [None] * len(message.tool_calls)
    for later in context[index + 1 :]:
        if later.role == "assistant":
            break
        if later.role != "tool":
            continue
        for position, call in enumerate(message.tool_calls):
            if results[position] is None and call.id == (later.tool_call_id or ""):
                results[position] = later
                break
    return Turn(index, message, tuple(results))


def last_turn(context: Sequence[Message]) -> Turn | None:
    """The assistant's last message with its results, if it calls tools."""
    for index in range(len(context) - 1, -1, -1):
        if context[index].role == "assistant":
            return turn_at(context, index) if context[index].tool_calls else None
    return None


# The words with which the answers of servers end that have said all they wanted to.
_WHOLE = frozenset(
    {
        "stop",
        "tool_calls",
        "tool_call",
        "function_call",
        "function_calls",
        "tool_use",
        "end_turn",
        "stop_sequence",
        "eos",
        "eos_token",
        "complete",
        "completed",
    }
)


def cut_reason(message: Message) -> str | None:
    """Return the word with which an answer ended before it was whole; None for a whole answer.

    Servers have many words for that (`length`, `max_tokens`, `content_filter`, `SAFETY`, `error`,
    ...), and few for the end of a whole answer: a word that is none of these is one for a cut. A
    server that has answered without a word may have been cut, too.
    """
    if "finish_reason" not in message.metadata:
        return None  # not a server's answer
    reason = message.metadata["finish_reason"]
    if reason is None:
        return "no finish reason"
    return str(reason) if is_cut(str(reason)) else None


def is_cut(reason: str) -> bool:
    """Return True if this is no word for the end of a whole answer."""
    word = reason.rpartition(".")[2].lower().replace("-", "_")
    return bool(word) and word not in _WHOLE


def is_json_object(text: str) -> bool:
    """Whether a model wrote arguments that are any."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def is_empty_object(text: str) -> bool:
    """Return True for JSON arguments that pass nothing."""
    try:
        return bool(json.loads(text) == {})
    except (ValueError, RecursionError):
        return False
