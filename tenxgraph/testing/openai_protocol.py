"""The bodies of OpenAI's replies, made from scripted answers."""

import base64
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenxgraph.testing.embedding import HashEmbedding

__all__ = [
    "Answer",
    "ServerError",
    "VerbatimAnswer",
    "VerbatimStream",
    "completion",
    "completion_chunks",
    "embeddings",
]

_DIMENSIONS = {"text-embedding-3-large": 3072}
_DEFAULT_DIMENSION = 1536
_MAX_INPUTS = 2_048
_PIECE = re.compile(r"\S+\s*|\s+")


class ServerError(Exception):
    """A reply that refuses: a status, a message, and headers such as `Retry-After`."""

    def __init__(
        self, status: int, message: str = "refused", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})

    def as_json(self) -> dict[str, Any]:
        """The body, in OpenAI's form."""
        kind = "rate_limit_error" if self.status == 429 else "invalid_request_error"
        error = {"message": str(self), "type": kind, "param": None, "code": None}
        return {"error": error}


@dataclass(frozen=True, slots=True)
class VerbatimAnswer:
    """A reply whose body is sent as it is, for what another server would answer.

    Attributes:
        body: any JSON value.
    """

    body: Any


@dataclass(frozen=True, slots=True)
class VerbatimStream:
    """A streamed reply whose events are sent as they are, for what another server would stream.

    Attributes:
        events: each is sent as the JSON of one event, but a text that begins with `:` is sent as a
            comment.
        is_done: whether `[DONE]` follows. Without it the stream looks cut.
    """

    events: Sequence[Any]
    is_done: bool = True


Answer = str | Mapping[str, Any] | ServerError | VerbatimAnswer | VerbatimStream


def completion(answer: str | Mapping[str, Any], body: Mapping[str, Any], number: int) -> Any:
    """A chat completion that says the answer."""
    said = {"content": answer} if isinstance(answer, str) else answer
    calls = [_tool_call(call, number, i) for i, call in enumerate(said.get("tool_calls") or ())]
    message: dict[str, Any] = {"role": "assistant", "content": said.get("content")}
    if calls:
        message["tool_calls"] = calls
    asked = _tokens(json.dumps(body.get("messages", [])))
    told = _tokens(json.dumps(message))
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000 + number,
        "model": body.get("model", ""),
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if calls else "stop",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": told,
            "total_tokens": asked + told,
        },
    }


def completion_chunks(whole: Mapping[str, Any], body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same completion as a stream: a word at a time, tool calls in pieces."""
    (choice,) = whole["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _PIECE.findall(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        opened = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        half = len(function["arguments"]) // 2
        for piece in (function["arguments"][:half], function["arguments"][half:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    chunks = [_chunk(whole, [_delta(delta, None)]) for delta in deltas]
    chunks.append(_chunk(whole, [_delta({}, choice["finish_reason"])]))
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append(_chunk(whole, []) | {"usage": whole["usage"]})
    return chunks


def embeddings(
    body: Mapping[str, Any], embedding: Callable[[int], HashEmbedding]
) -> dict[str, Any]:
    """The reply to an embeddings request, with the refusals of the real endpoint."""
    given = body["input"]
    texts = [given] if isinstance(given, str) else given
    if not texts or len(texts) > _MAX_INPUTS or not all(isinstance(t, str) and t for t in texts):
        raise ServerError(400, "'$.input' is invalid.")
    model = str(body.get("model", ""))
    dimension = body.get("dimensions") or _DIMENSIONS.get(model, _DEFAULT_DIMENSION)
    maker = embedding(dimension)
    as_bytes = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _packed(maker.vector(text)) if as_bytes else maker.vector(text),
        }
        for index, text in enumerate(texts)
    ]
    count = sum(map(_tokens, texts))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _tool_call(call: Mapping[str, Any], number: int, index: int) -> dict[str, Any]:
    arguments = call.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": call.get("id", f"call_{number}_{index}"),
        "type": "function",
        "function": {"name": call["name"], "arguments": text},
    }


def _chunk(whole: Mapping[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    same = {name: whole[name] for name in ("id", "created", "model")}
    return {**same, "object": "chat.completion.chunk", "choices": choices}


def _delta(delta: Mapping[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _tokens(text: str) -> int:
    """About as many tokens as a real model would count: one for four bytes."""
    return max(1, len(text.encode()) // 4)
