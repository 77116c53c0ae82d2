"""AnswerAssembler: the chunks of a stream as the one answer that they are pieces of."""

from collections.abc import Mapping
from typing import Any

from tenxgraph.core.graph.models import OnToken
from tenxgraph.core.graph.provider_answer import as_plain, finish_reason_of, raise_error_of
from tenxgraph.core.graph.streamed_calls import StreamedCalls
from tenxgraph.core.graph.streamed_value import added, finished
from tenxgraph.core.state.unicode import joined_pairs

__all__ = ["AnswerAssembler"]

_OWN_KEYS = frozenset({"content", "role", "tool_calls"})
_CUT = frozenset({"content_filter", "length"})


class AnswerAssembler:
    """Builds an answer in OpenAI's format from the chunks of its stream.

    Servers that speak OpenAI's protocol deviate from it in many ways. A chunk that is odd is taken
    as far as it can be read, and never ends the answer: what has come was paid for.

    Args:
        on_token: is called with the words of the answer as they come.
        choices: how many choices were asked for. The first one is the answer.
    """

    def __init__(self, on_token: OnToken, choices: int = 1) -> None:
        self._words = _Words(on_token)
        self._choices = choices
        self._content: list[Any] = []
        self._in_parts = False
        self._calls = StreamedCalls()
        self._rest: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._model: str | None = None
        self._finish_reason: str | None = None
        self._has_begun = False
        self._has_ended = False

    @property
    def has_ended(self) -> bool:
        """True if the server has said that the answer is over.

        It says so by a finish reason, or by a chunk with token counts and without choices, which is
        the last one of a stream. Before the first choice such a chunk ends nothing: some servers
        count the prompt first.
        """
        return self._has_ended

    def add(self, chunk: Any) -> None:
        """Take in one chunk.

        Raises:
            GraphError: the chunk says that the server has failed.
        """
        plain = as_plain(chunk)
        if not isinstance(plain, Mapping):
            return
        raise_error_of(plain)
        if isinstance(plain.get("model"), str) and plain["model"]:
            self._model = plain["model"]
        choices = plain.get("choices")
        choices = [choices] if isinstance(choices, Mapping) else choices
        choices = choices if isinstance(choices, list) else []
        if isinstance(plain.get("usage"), Mapping) and plain["usage"]:
            added(self._usage, plain["usage"], "")
            self._has_ended = self._has_ended or (self._has_begun and not choices)
        for choice in filter(self._is_first, choices[: self._choices]):
            self._add_choice(choice)

    def answer(self) -> dict[str, Any]:
        """Return the whole answer, as a server sends it that does not stream."""
        self._words.end()
        message = {"role": "assistant", "content": self._whole_content(), **finished(self._rest)}
        if calls := self._calls.whole():
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {"model": self._model, "choices": [choice], "usage": self._usage or None}

    def _is_first(self, choice: Any) -> bool:
        if not isinstance(choice, Mapping):
            return False
        # Of a single choice some servers count the tokens in its index.
        return self._choices == 1 or choice.get("index") in (0, None)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        raise_error_of(choice)
        self._has_begun = True
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            delta = choice.get("message")
        if isinstance(delta, Mapping):
            self._add_delta(delta)
        reason = finish_reason_of(choice)
        # An answer that was cut stays so, whatever the server says after it.
        if reason is not None and self._finish_reason not in _CUT:
            self._finish_reason = reason
        self._has_ended = self._has_ended or reason is not None

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        self._add_content(delta.get("content"))
        if delta.get("tool_calls"):
            self._calls.add(delta["tool_calls"])
        for key, value in delta.items():
            if key not in _OWN_KEYS and value is not None:
                self._rest[key] = added(self._rest.get(key), value, key)

    def _add_content(self, content: Any) -> None:
        if isinstance(content, str | Mapping):
            content = [content]
        if not isinstance(content, list):
            return
        for piece in content:
            part = {"type": "text", "text": piece} if isinstance(piece, str) else piece
            if not isinstance(part, Mapping) or part == {"type": "text", "text": ""}:
                continue
            self._in_parts = self._in_parts or not isinstance(piece, str)
            self._content = added(self._content, [part], "")
            if part.get("type") == "text" and isinstance(part.get("text"), str):
                self._words.add(part["text"])

    def _whole_content(self) -> Any:
        parts = finished(self._content)
        if self._in_parts:
            return parts
        return "".join(part["text"] for part in parts) or None


class _Words:
    """Passes the words of an answer on, and never half a character."""

    def __init__(self, on_token: OnToken) -> None:
        self._on_token = on_token
        self._half = ""

    def add(self, text: str) -> None:
        """Pass on a text, but for half a surrogate pair at its end, which waits for the other."""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if text:
            self._on_token(joined_pairs(text))

    def end(self) -> None:
        """Pass on what still waits."""
        half, self._half = self._half, ""
        if half:
            self._on_token(half)
