"""ContextWindow: how much of a long conversation a model is sent. What is stored stays whole."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.calls import turn_at
from tenxgraph.core.graph.node import call
from tenxgraph.core.state import AgentState, Message

__all__ = ["ContextWindow", "Trimmed", "estimate_tokens", "summary_text"]

Summarize = Callable[[list[Message], str | None], str | Awaitable[str]]
"""Takes the messages that fall out of the window and the old summary; returns the new one."""

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4


def estimate_tokens(message: Message) -> int:
    """Return how many tokens a message has, about: one for four characters, and four more.

    Texts, results and tool calls count. Images, sounds and files do not.
    """
    characters = len(message.text())
    for one in message.tool_calls:
        characters += len(one.name) + len(one.arguments_text())
    return _TOKENS_PER_MESSAGE + -(-characters // _CHARACTERS_PER_TOKEN)


class Trimmed(NamedTuple):
    """What a model is sent of a state, and what its node writes besides the answer."""

    context: list[Message]
    summary: str | None
    update: dict[str, Any]
    """The new summary, and the id of the last message in it; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """The newest messages of a conversation that a model is sent, within limits.

    These are always sent, even if they alone pass a limit: system messages, which count for nothing
    here; the user's last message; and the newest message, with its tool calls and results. A tool
    call and its results are sent together or not at all. Behind system messages the first message
    is a user's, as many providers demand.

    Attributes:
        max_messages: how many messages at most.
        max_tokens: how many tokens at most, of these messages. The system message, the tools and
            the answer come on top.
        count_tokens: the tokens of a message; by default an estimate of four characters a token.
        summarize: a function `(messages, summary) -> str`, sync or async, that makes a new summary
            of the messages that fall out of the window and of the old summary. What it returns is
            stored as the state's `context_summary`, together with the model's answer.

    Raises:
        GraphError: there is no limit, or one that is no positive number.
    """

    max_messages: int | None = None
    max_tokens: int | None = None
    count_tokens: Callable[[Message], int] | None = None
    summarize: Summarize | None = None

    def __post_init__(self) -> None:
        """Refuse limits that are none."""
        limits = {"max_messages": self.max_messages, "max_tokens": self.max_tokens}
        for name, value in limits.items():
            if value is not None and (type(value) is not int or value < 1):
                raise GraphError(f"`{name}` must be a whole number from 1, not {value!r}.")
        if all(value is None for value in limits.values()):
            raise GraphError("A ContextWindow needs `max_messages`, `max_tokens` or both.")

    async def of(self, state: AgentState) -> Trimmed:
        """Return what is sent of a state, with a new summary where messages have fallen out."""
        start = self._start(state.context)
        sent = _from(state.context, start)
        fallen = _new(state, start) if self.summarize is not None else []
        if not fallen:
            return Trimmed(sent, state.context_summary, {})
        summary = await self._summary(fallen, state.context_summary)
        update = {"context_summary": summary, "context_summary_until": fallen[-1].message_id}
        return Trimmed(sent, summary, update)

    async def _summary(self, fallen: list[Message], old: str | None) -> str:
        assert self.summarize is not None
        summary = await call(partial(self.summarize, fallen, old), {})
        if not isinstance(summary, str):
            kind = type(summary).__name__
            raise GraphError(f"`summarize` must return the new summary as a string, not {kind}.")
        return summary

    def _start(self, context: Sequence[Message]) -> int:
        """Return the index of the first message that is sent, but for those always sent."""
        question = _last_question(context)
        messages = 0 if question is None else 1
        tokens = 0 if question is None else self._tokens(context[question])
        units = _units(context)
        start, has_newest = len(context), False
        for unit in reversed(units):
            spoken = [i for i in unit if context[i].role != "system"]
            others = [i for i in spoken if i != question]
            messages += len(others)
            tokens += sum(self._tokens(context[i]) for i in others)
            if has_newest and self._is_passed(messages, tokens):
                break
            start, has_newest = unit.start, has_newest or bool(spoken)
        firsts = (one.start for one in units if one.start >= start)
        return next((i for i in firsts if context[i].role == "user"), start)

    def _tokens(self, message: Message) -> float:
        if self.max_tokens is None:
            return 0
        tokens = (self.count_tokens or estimate_tokens)(message)
        if not isinstance(tokens, int | float):
            raise GraphError(f"`count_tokens` must return a number, not {type(tokens).__name__}.")
        return tokens

    def _is_passed(self, messages: int, tokens: float) -> bool:
        if self.max_messages is not None and messages > self.max_messages:
            return True
        return self.max_tokens is not None and tokens > self.max_tokens


def summary_text(summary: str | None) -> str:
    """Return what the system message says of earlier messages."""
    return f"Summary of the earlier conversation:\n{summary}" if summary else ""


def _units(context: Sequence[Message]) -> list[range]:
    """Return the pieces of a context that must not be parted: a tool call with its results."""
    units: list[range] = []
    while (first := units[-1].stop if units else 0) < len(context):
        units.append(range(first, _end_of_turn(context, first)))
    return units


def _end_of_turn(context: Sequence[Message], index: int) -> int:
    """Return the index behind the last result of a message's tool calls."""
    results = turn_at(context, index).results if context[index].tool_calls else ()
    ids = {one.message_id for one in results if one is not None}
    end = index + 1
    for later in range(index + 1, len(context)):
        if context[later].role == "assistant" or not ids:
            break
        if context[later].message_id in ids:
            end = later + 1
    return end


def _last_question(context: Sequence[Message]) -> int | None:
    return next((i for i in range(len(context) - 1, -1, -1) if context[i].role == "user"), None)


def _from(context: Sequence[Message], start: int) -> list[Message]:
    """Return the messages from an index, behind system messages and the user's last message."""
    question = _last_question(context)
    return [
        message
        for index, message in enumerate(context)
        if index >= start or index == question or message.role == "system"
    ]


def _new(state: AgentState, start: int) -> list[Message]:
    """Return the messages before the window that no summary has been made of."""
    ids = [message.message_id for message in state.context]
    until = state.context_summary_until
    first = ids.index(until) + 1 if until in ids else 0
    return [one for one in state.context[first:start] if one.role != "system"]
