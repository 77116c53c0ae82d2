"""Tool calls and their results: which result answers which call, and which have none."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tenxgraph.core.state import Message, ToolCall

__all__ = ["Turn", "is_empty_object", "is_json_object", "last_turn", "turn_at"]


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
