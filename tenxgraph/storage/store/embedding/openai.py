"""Embeddings by OpenAI, or by any server that speaks its protocol."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tenxgraph._optional import require
from tenxgraph._per_loop import PerLoop
from tenxgraph.core.exceptions import StoreError
from tenxgraph.core.state.unicode import valid_text
from tenxgraph.storage.store.embedding.base import BaseEmbedding, checked_texts
from tenxgraph.storage.store.embedding.openai_reply import (
    EncodingFormat,
    NotBase64Error,
    checked_encoding_format,
    refuses_base64,
    vectors_of,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIEmbedding"]

_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

# OpenAI's limits are 8,192 tokens a text, 2,048 texts and 300,000 tokens a request. Its tokens are
# made of whole UTF-8 bytes, so a limit on bytes holds for tokens, whatever the language.
_MAX_TEXT_BYTES = 8_000
_MAX_TEXTS = 2_048
_MAX_REQUEST_BYTES = 300_000


class OpenAIEmbedding(BaseEmbedding):
    """Embeds with OpenAI's embeddings endpoint.

    Texts of any length and lists of any size are taken: lists are sent in as many requests as the
    service's limits ask for, and a text beyond 8,000 bytes is embedded in parts, whose vectors are
    averaged by their length, so that nothing of it is dropped.

    Args:
        model: an embedding model of the service.
        api_key: the key; by default the environment's `OPENAI_API_KEY`.
        base_url: another server; by default the environment's `OPENAI_BASE_URL`, else OpenAI.
        dimensions: a shorter vector, where the model offers it (`text-embedding-3-*`).
        timeout: seconds that one request may take.
        max_retries: how often the client repeats a request that was rate limited or failed.
        encoding_format: how the service is asked to send numbers, `"base64"` or `"float"`. By
            default base64, which is a quarter of the size; a service that refuses it, or does not
            know it, is asked for floats from then on.

    Raises:
        ImportError: the package `openai` is not installed.
        ValueError: `encoding_format` is none of these.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        dimensions: int | None = None,
        timeout: float = 30.0,
        max_retries: int = 2,
        encoding_format: EncodingFormat | None = None,
    ) -> None:
        require("openai", extra="openai", wanted_by="OpenAIEmbedding")
        self._model = model
        self._api_key = api_key
        self._base_url = base_url
        self._requested = dimensions
        self._dimension = dimensions or _DIMENSIONS.get(model)
        self._timeout = timeout
        self._max_retries = max_retries
        self._encoding_format = checked_encoding_format(encoding_format)
        self._clients = PerLoop(self._connect, lambda client: client.close())

    def __repr__(self) -> str:
        return f"OpenAIEmbedding(model={self._model!r}, base_url={self._base_url!r})"

    @property
    def model(self) -> str:
        """The model's name, and its dimensions if they are not the model's own."""
        return self._model if self._requested is None else f"{self._model}@{self._requested}"

    @property
    def dimension(self) -> int:
        """The length of a vector; for a model that is not known it is measured once."""
        if self._dimension is None:
            self.embed("dimension")
        assert self._dimension is not None
        return self._dimension

    async def adimension(self) -> int:
        """The length of a vector; for a model that is not known it is measured once."""
        if self._dimension is None:
            self._dimension = len(await self.aembed("dimension"))
        return self._dimension

    async def aembed(self, text: str) -> list[float]:
        """The vector of one text.

        Raises:
            ValueError: the text is blank.
            StoreError: the service is unavailable or refused.
        """
        return (await self.aembed_batch([text]))[0]

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order; raises what `aembed` raises."""
        checked_texts(texts)
        parts = [_parts(valid_text(text)) for text in texts]
        flat = list(itertools.chain.from_iterable(parts))
        vectors: list[list[float]] = []
        for batch in _batches(flat):
            vectors += await self._request(batch)
        remaining = iter(vectors)
        joined = [_average(own, list(itertools.islice(remaining, len(own)))) for own in parts]
        if self._dimension is None and joined:
            self._dimension = len(joined[0])
        return joined

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    async def _request(self, texts: list[str]) -> list[list[float]]:
        from openai import OpenAIError

        try:
            vectors = await self._create(texts)
        except (OpenAIError, ValueError, TypeError, AttributeError) as error:
            # The latter: something answered that is no embedding service, or only half of one.
            raise StoreError(self._explained(error)) from error
        if len(vectors) != len(texts):
            raise StoreError(
                f"{self!r} got {len(vectors)} vectors for {len(texts)} texts; none was used."
            )
        return vectors

    async def _create(self, texts: list[str]) -> list[list[float]]:
        from openai import APIStatusError

        if self._encoding_format is not None:
            return await self._create_as(self._encoding_format, texts)
        try:
            return await self._create_as("base64", texts)
        except NotBase64Error:
            pass
        except APIStatusError as error:
            if not refuses_base64(error):
                raise
        vectors = await self._create_as("float", texts)
        # Remembered once it has worked: each request would be refused once more otherwise.
        self._encoding_format = "float"
        return vectors

    async def _create_as(
        self, encoding_format: EncodingFormat, texts: list[str]
    ) -> list[list[float]]:
        # The format is always named. The client would decode base64 by itself otherwise, and take
        # text that is no base64 for numbers.
        options: dict[str, Any] = {"encoding_format": encoding_format}
        if self._requested is not None:
            options["dimensions"] = self._requested
        client = self._clients.current()
        return vectors_of(await client.embeddings.create(model=self._model, input=texts, **options))

    def _connect(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            timeout=self._timeout,
            max_retries=self._max_retries,
        )

    def _explained(self, error: Exception) -> str:
        reason = f"{type(error).__name__}: {error}"
        if self._api_key:
            reason = reason.replace(self._api_key, "***")
        return f"The embedding model {self._model!r} is unavailable. {reason}"


def _parts(text: str) -> list[str]:
    """The text in pieces that no model refuses for their length."""
    data = text.encode()
    if len(data) <= _MAX_TEXT_BYTES:
        return [text]
    parts, start = [], 0
    while start < len(data):
        # Cutting inside a character leaves bytes that do not decode; they begin the next part.
        part = data[start : start + _MAX_TEXT_BYTES].decode(errors="ignore")
        start += len(part.encode())
        if part.strip():
            parts.append(part)
    return parts


def _batches(texts: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == _MAX_TEXTS or size + length > _MAX_REQUEST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _average(parts: list[str], vectors: list[list[float]]) -> list[float]:
    """The mean of the parts' vectors, weighted by length and brought back to length 1."""
    if len(vectors) == 1:
        return vectors[0]
    weights = [len(part.encode()) for part in parts]
    summed = [
        sum(weight * number for weight, number in zip(weights, numbers, strict=True))
        for numbers in zip(*vectors, strict=True)
    ]
    norm = math.sqrt(sum(number * number for number in summed)) or 1.0
    return [number / norm for number in summed]
