"""OpenAI's chat completions, or those of any server that speaks the same protocol."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenxgraph._optional import require
from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.models import OnToken
from tenxgraph.core.state import Message, TokenUsages, ToolCall
from tenxgraph.storage.store.per_loop import PerLoop

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]

_CLIENT_OPTIONS = ("timeout", "max_retries", "default_headers", "organization", "project")


class OpenAIModel:
    """A model behind the official client, whose retries and timeouts apply.

    Args:
        model: its name.
        base_url: another server; by default the environment's `OPENAI_BASE_URL`, else OpenAI.
        api_key: the key; by default the environment's `OPENAI_API_KEY`.
        response_format: the form of the answer, in OpenAI's terms.
        stream: whether the words come as they are made; `False` for servers that cannot.
        options: `timeout`, `max_retries`, `default_headers`, `organization` and `project` go to
            the client; everything else (`temperature`, `tool_choice`, ...) into each request.

    Raises:
        ImportError: the package `openai` is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        response_format: Mapping[str, Any] | None = None,
        stream: bool = True,
        **options: Any,
    ) -> None:
        require("openai", extra="openai", wanted_by=f"The model {model!r}")
        self._client_options = {
            name: options.pop(name) for name in _CLIENT_OPTIONS if name in options
        }
        self._client_options |= {"base_url": base_url, "api_key": api_key}
        self._request: dict[str, Any] = {"model": model, **options}
        if response_format is not None:
            self._request["response_format"] = dict(response_format)
        if stream:
            self._request |= {"stream": True, "stream_options": {"include_usage": True}}
        self._clients = PerLoop(self._connect, lambda client: client.close())

    def __repr__(self) -> str:
        return f"OpenAIModel({self._request['model']!r})"

    async def answer(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], on_token: OnToken
    ) -> Message:
        """The model's next message, with what it cost in `usages`.

        Raises:
            openai.OpenAIError: the service refused, or is away.
            GraphError: the answer broke off.
        """
        request = {**self._request, "messages": [message.to_openai() for message in messages]}
        if tools:
            request["tools"] = list(tools)
        response: Any = await self._clients.get().chat.completions.create(**request)
        if not self._request.get("stream"):
            return self._whole(response, on_token)
        pieces = _Pieces(on_token)
        async with response:
            async for chunk in response:
                pieces.add(chunk)
        return pieces.message(self)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    def _connect(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI(**self._client_options)

    def _whole(self, response: Any, on_token: OnToken) -> Message:
        if not response.choices:
            raise GraphError(f"{self!r} gave no answer.")
        choice = response.choices[0]
        answer = Message.from_openai(choice.message).model_copy(
            update={
                "usages": _usages(response.usage),
                "metadata": {"model": response.model, "finish_reason": choice.finish_reason},
            }
        )
        if text := answer.text():
            on_token(text)
        return answer


class _Pieces:
    """An answer put together from the chunks of a stream."""

    def __init__(self, on_token: OnToken) -> None:
        self._on_token = on_token
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, str]] = []
        self._places: dict[int, int] = {}
        self._usage: Any = None
        self._metadata: dict[str, Any] = {}

    def add(self, chunk: Any) -> None:
        """Take in one chunk."""
        self._usage = chunk.usage or self._usage
        self._metadata["model"] = chunk.model
        for choice in chunk.choices[:1]:
            if choice.finish_reason is not None:
                self._metadata["finish_reason"] = choice.finish_reason
            self._add_delta(choice.delta)

    def _add_delta(self, delta: Any) -> None:
        if delta.content:
            self._text.append(delta.content)
            self._on_token(delta.content)
        if delta.refusal:
            self._refusal.append(delta.refusal)
        # Not OpenAI's own, but what the servers of open models send.
        thought = (delta.model_extra or {}).get("reasoning_content")
        if isinstance(thought, str):
            self._reasoning.append(thought)
        for piece in delta.tool_calls or ():
            self._add_call(piece)

    def _add_call(self, piece: Any) -> None:
        place = self._places.get(piece.index)
        # Some servers give every call of a message the index 0; the id tells them apart.
        is_another = place is not None and piece.id and self._calls[place]["id"] != piece.id
        if place is None or is_another:
            place = self._places[piece.index] = len(self._calls)
            self._calls.append({"id": piece.id or "", "name": "", "arguments": ""})
        if piece.function is not None:
            self._calls[place]["name"] += piece.function.name or ""
            self._calls[place]["arguments"] += piece.function.arguments or ""

    def message(self, model: OpenAIModel) -> Message:
        """The whole answer. Raises `GraphError` if the stream ended before the answer did."""
        if "finish_reason" not in self._metadata:
            raise GraphError(f"The answer of {model!r} broke off before its end.")
        answer = Message.assistant(
            "".join(self._text) if self._text else None,
            [ToolCall.from_arguments(**call) for call in self._calls],
            usages=_usages(self._usage),
        )
        more: dict[str, Any] = {"metadata": self._metadata}
        if self._reasoning:
            more["reasoning"] = "".join(self._reasoning)
        if self._refusal:
            more["raw"] = {"refusal": "".join(self._refusal)}
        return answer.model_copy(update=more)


def _usages(usage: Any) -> TokenUsages | None:
    if usage is None:
        return None
    told, asked = usage.completion_tokens_details, usage.prompt_tokens_details
    return TokenUsages(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=(told and told.reasoning_tokens) or 0,
        cached_tokens=(asked and asked.cached_tokens) or 0,
    )
