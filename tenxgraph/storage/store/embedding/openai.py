"""Embeddings by OpenAI, or by any server that speaks its protocol."""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tenxgraph._optional import require
from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.embedding.base import BaseEmbedding, checked_texts
from tenxgraph.storage.store.per_loop import PerLoop

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

    Raises:
        ImportError: the package `openai` is not installed.
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
    ) -> None:
        require("openai", extra="openai", wanted_by="OpenAIEmbedding")
        self._model = model
        self._api_key = api_key
        self._base_url = base_url
        self._requested = dimensions
        self._dimension = dimensions or _DIMENSIONS.get(model)
        self._timeout = timeout
        self._max_retries = max_retries
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
        parts = [_parts(text) for text in texts]
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
            create = functools.partial(
                self._clients.get().embeddings.create, model=self._model, input=texts
            )
            if self._requested is None:
                response = await create()
            else:
                response = await create(dimensions=self._requested)
            data = sorted(response.data, key=lambda item: item.index)
            vectors = [list(item.embedding) for item in data]
        except (OpenAIError, ValueError, TypeError, AttributeError) as error:
            # The latter: something answered that is no embedding service, or only half of one.
            raise StoreError(self._explained(error)) from error
        if len(vectors) != len(texts):
            raise StoreError(
                f"{self!r} got {len(vectors)} vectors for {len(texts)} texts; none was used."
            )
        return vectors

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
