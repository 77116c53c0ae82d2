"""What an agent asks: the ChatModel protocol, and any function as a model."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.node import call
from tenxgraph.core.state import Message, ToolCall

__all__ = ["ChatModel", "FunctionModel", "OnToken"]

OnToken = Callable[[str], None]
"""Takes a piece of the answer as it arrives."""


@runtime_checkable
class ChatModel(Protocol):
    """Something that answers a conversation."""

    async def answer(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], on_token: OnToken
    ) -> Message:
        """The assistant's next message.

        Args:
            messages: the conversation, system prompt first. Each tool call in it has its result
                right after it.
            tools: what may be called, in OpenAI's format.
            on_token: is to be told the words of the answer as they come.
        """


class FunctionModel:
    """A function of messages and tools as a model; it answers all at once.

    Args:
        function: `(messages, tools)` to a message, a string, a tool call or several, or an OpenAI
            dict; sync or async. A sync one runs in a thread.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        try:
            names = list(inspect.signature(function).parameters)[:2]
        except (TypeError, ValueError) as error:
            raise GraphError(f"The model {function!r} has no signature to look at.") from error
        if len(names) < 2:
            message = "A model must be a function of two arguments, `messages` and `tools`."
            raise GraphError(message)
        self._names = names

    async def answer(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], on_token: OnToken
    ) -> Message:
        """What the function returns, as a message."""
        arguments = (list(messages), [dict(one) for one in tools])
        said = await call(self._function, dict(zip(self._names, arguments, strict=True)))
        answer = _as_answer(said)
        if text := answer.text():
            on_token(text)
        return answer


def _as_answer(said: Any) -> Message:
    if isinstance(said, str):
        return Message.assistant(said)
    if isinstance(said, Mapping):
        said = Message.from_openai(said)
    calls = said if isinstance(said, list | tuple) else [said]
    if calls and all(isinstance(one, ToolCall) for one in calls):
        return Message.assistant(tool_calls=calls)
    if isinstance(said, Message) and said.role == "assistant":
        return said
    message = (
        f"A model must answer with an assistant's message, a string or tool calls, not {said!r}."
    )
    raise GraphError(message)
