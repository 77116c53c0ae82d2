"""A model for tests: it says what it is told to, and refuses what a provider would refuse."""

import inspect
import re
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenxgraph.core.state import Message, ToolCall
from tenxgraph.testing.provider_rules import broken_rules

__all__ = ["ModelRequest", "ScriptedModel"]

_WORD = re.compile(r"\S+\s*|\s+")

Answer = str | Message | ToolCall | Sequence[ToolCall] | BaseException
Script = Callable[[list[Message], list[dict[str, Any]]], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the model was sent."""

    messages: list[Message]
    tools: list[dict[str, Any]]


class ScriptedModel:
    """Answers from a list, a word at a time.

        model = ScriptedModel([ToolCall(id="1", name="add", args={"a": 1, "b": 2}), "It is 3."])
        app = ReactAgent(model, tools=[add]).compile()

    A conversation that a provider would refuse is an `AssertionError`, and so is a request beyond
    the last answer.

    Args:
        answers: one for each request: a text, a message, a tool call or several, an exception to
            raise, or a function of messages and tools, sync or async, that returns one of these.
            Or one function, which answers every request.

    Attributes:
        requests: what it was sent so far.
    """

    def __init__(self, answers: Iterable[Answer | Script] | Script) -> None:
        self.requests: list[ModelRequest] = []
        self._always = answers if callable(answers) else None
        self._answers = deque(() if callable(answers) else answers)
        self._lock = threading.Lock()

    def add_answers(self, *answers: Answer | Script) -> None:
        """Let the model say more."""
        self._answers.extend(answers)

    async def answer(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        on_token: Callable[[str], None],
    ) -> Message:
        """The next answer of the script."""
        request = ModelRequest(list(messages), [dict(one) for one in tools])
        problems = broken_rules([message.to_openai() for message in messages])
        if problems:
            raise AssertionError(f"A provider would refuse this: {'; '.join(problems)}.")
        told = self._next(request)
        answer = _as_message(await told if inspect.isawaitable(told) else told)
        for word in _WORD.findall(answer.text()):
            on_token(word)
        return answer

    def _next(self, request: ModelRequest) -> Answer | Awaitable[Answer]:
        with self._lock:
            self.requests.append(request)
            if self._always is None and not self._answers:
                raise AssertionError("The script of this ScriptedModel has no more answers.")
            answer: Answer | Script = self._always or self._answers.popleft()
        return answer(request.messages, request.tools) if callable(answer) else answer


def _as_message(answer: Answer) -> Message:
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, Message):
        return answer
    if isinstance(answer, str):
        return Message.assistant(answer)
    calls = [answer] if isinstance(answer, ToolCall) else answer
    return Message.assistant(tool_calls=calls)
