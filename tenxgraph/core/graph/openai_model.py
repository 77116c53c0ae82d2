"""OpenAI's chat completions, or those of any server that speaks the same protocol."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenxgraph._optional import require
from tenxgraph._per_loop import PerLoop
from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.answer_assembler import AnswerAssembler
from tenxgraph.core.graph.models import OnToken
from tenxgraph.core.graph.provider_answer import read_answer, words_of
from tenxgraph.core.state import Message
from tenxgraph.core.state.json_words import as_json
from tenxgraph.core.state.unicode import valid_unicode

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]

_NEEDED_KEYS = frozenset({"content", "role", "tool_call_id", "tool_calls"})
_CLIENT_OPTIONS = ("timeout", "max_retries", "default_headers", "organization", "project")


class OpenAIModel:
    """A model behind the official client, whose retries and timeouts apply.

    Args:
        model: its name.
        base_url: another server; by default the environment's `OPENAI_BASE_URL`, else OpenAI.
        api_key: the key; by default the environment's `OPENAI_API_KEY`.
        response_format: the form of the answer, in OpenAI's terms.
        stream: whether the words come as they are made; `False` for servers that cannot.
        omit: keys of messages that the server refuses, such as `"reasoning_content"`. They are left
            out of what is sent: of messages, of their parts and of their calls.
        options: `timeout`, `max_retries`, `default_headers`, `organization` and `project` go to
            the client; everything else (`temperature`, `tool_choice`, ...) into each request.

    Raises:
        GraphError: `omit` names a key without which a message means nothing.
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
        omit: Iterable[str] = (),
        **options: Any,
    ) -> None:
        require("openai", extra="openai", wanted_by=f"The model {model!r}")
        self._omit = _omitted(omit)
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
        """Return the model's next message, with its token counts in `usages`.

        Its `metadata` holds `model` and `finish_reason`.

        Raises:
            openai.OpenAIError: the service refused, or is away.
            GraphError: the answer broke off or was withheld, or the service failed on the way.
        """
        # What JSON cannot hold, such as NaN in a key that a server has sent, makes no turn fail.
        sent = as_json([message.to_openai(omit=self._omit) for message in messages])
        request = {**self._request, "messages": sent}
        if tools:
            request["tools"] = list(tools)
        # The client raises for half a surrogate pair, and would do so on every later turn.
        request = valid_unicode(request)
        response: Any = await self._clients.current().chat.completions.create(**request)
        if self._request.get("stream"):
            return self._read(await self._assembled(response, on_token))
        answer = self._read(response)
        if text := answer.text():
            on_token(text)
        return answer

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    def _connect(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI(**self._client_options)

    async def _assembled(self, stream: Any, on_token: OnToken) -> dict[str, Any]:
        from openai import APIError

        assembler = AnswerAssembler(on_token, self._request.get("n") or 1)
        try:
            async with stream:
                async for chunk in stream:
                    assembler.add(chunk)
        except APIError as error:
            # Its subclasses tell of the connection. This one is an `error` that a chunk holds.
            if type(error) is not APIError:
                raise
            words = words_of(error.body) if isinstance(error.body, Mapping) else str(error)
            raise GraphError(f"The model's server has failed: {words}") from error
        if not assembler.has_ended:
            raise GraphError(
                f"The answer of {self!r} broke off before its end: no chunk had a `finish_reason`. "
                "If the server never sends one, use `stream=False`."
            )
        return assembler.answer()

    def _read(self, answer: Any) -> Message:
        return read_answer(answer, model=self._request["model"])


def _omitted(names: Iterable[str]) -> frozenset[str]:
    omitted = frozenset([names] if isinstance(names, str) else names)
    if needed := sorted(omitted & _NEEDED_KEYS):
        raise GraphError(f"`omit` must not name {needed[0]!r}: no message means anything without.")
    return omitted
