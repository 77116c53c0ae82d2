"""The half of a store that embeds texts; what is left to a backend is to keep vectors."""

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence

from tenxgraph.core.exceptions import StoreError, StoreMismatchError
from tenxgraph.storage.store.base import BaseStore, Revision
from tenxgraph.storage.store.embedding.base import BaseEmbedding
from tenxgraph.storage.store.memory_scope import MemoryScope, is_derived_id, is_memory_id
from tenxgraph.storage.store.query import Where
from tenxgraph.storage.store.records import (
    MemorySearchResult,
    WriteMode,
    merged_metadata,
)

__all__ = ["VectorStore"]


class VectorStore(BaseStore):
    """A store that asks an embedding for its vectors, and owns the ids of its memories.

    The id of a memory with a key is made of its scope and key, so the backend itself keeps it
    single, whichever processes write it at once.
    """

    def __init__(self, embedding: BaseEmbedding) -> None:
        if not isinstance(embedding, BaseEmbedding):
            raise TypeError(
                f"`embedding` must be a BaseEmbedding, such as OpenAIEmbedding(), not "
                f"{type(embedding).__name__}."
            )
        self.embedding = embedding

    async def _asave(
        self,
        scope: MemoryScope,
        records: list[MemorySearchResult],
        write_mode: WriteMode,
        *,
        keep_newer: bool = False,
    ) -> list[str]:
        await self.asetup()
        latest = {record.id: record for record in records}
        # Before what is there is looked at: an embedding may take seconds, in which it changes.
        made = await self._vectors([record.content for record in latest.values()])
        vectors = dict(zip(latest, made, strict=True))
        named = [memory_id for memory_id in latest if is_derived_id(memory_id)]
        for old in await self._aload(named) if named else []:
            new = latest[old.id]
            repeated = new.memory_key is None  # a write that has landed
            if repeated or (keep_newer and old.updated_at > new.updated_at):
                del latest[old.id]
            else:
                latest[old.id] = _over(old, new, write_mode)
        if latest:
            await self._aupsert(list(latest.values()), [vectors[one] for one in latest])
        return [record.id for record in records]

    async def _asearch(
        self, scope: MemoryScope, query: str, where: Where, limit: int
    ) -> list[MemorySearchResult]:
        await self.asetup()
        (vector,) = await self._vectors([query])
        return await self._anearest(scope, vector, where, limit)

    async def _afetch(self, scope: MemoryScope, ids: Sequence[str]) -> list[MemorySearchResult]:
        await self.asetup()
        own = [memory_id for memory_id in ids if is_memory_id(memory_id)]
        return await self._aload(own) if own else []

    async def _akeyed(self, scope: MemoryScope, memory_key: str) -> MemorySearchResult | None:
        return await self._aone(scope, scope.id_for("key", memory_key))

    async def _arevise(
        self, scope: MemoryScope, memory_id: str, content: str, revise: Revision
    ) -> bool:
        if await self._aone(scope, memory_id) is None:
            return False
        vectors = await self._vectors([content])
        # Once more: an embedding may take seconds, in which it changes, or goes.
        old = await self._aone(scope, memory_id)
        new = None if old is None else revise(old)
        if new is not None:
            await self._aupsert([new], vectors)
        return old is not None

    async def _aclose(self) -> None:
        # The embedding may serve another store: it opens again when it is used.
        await self.embedding.aclose()

    async def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            vectors = await self.embedding.aembed_batch(texts)
            dimension = await self.embedding.adimension()
            self._check_number(vectors, texts)
            for vector in vectors:
                self._check(vector, dimension)
        except StoreError:
            raise
        except Exception as error:
            # An embedding is the user's own code and its service's client: anything may come, and
            # a text that has been checked is nothing that it could rightly refuse for good.
            raise StoreError(
                f"The embedding {self.embedding.model!r} is unavailable. "
                f"{type(error).__name__}: {error}"
            ) from error
        return vectors

    def _check_number(self, vectors: Sequence[object], texts: Sequence[str]) -> None:
        if len(vectors) != len(texts):
            raise StoreError(
                f"The embedding {self.embedding.model!r} returned {len(vectors)} vectors for "
                f"{len(texts)} texts. Nothing was written."
            )

    def _check(self, vector: Sequence[float], dimension: int) -> None:
        if len(vector) != dimension:
            raise StoreMismatchError(
                f"The embedding {self.embedding.model!r} returned a vector of {len(vector)} "
                f"numbers where {dimension} were promised. Nothing was written."
            )
        # One number that is none makes the sum none, at a tenth of the cost of asking each.
        if not math.isfinite(sum(vector)):
            raise StoreError(
                f"The embedding {self.embedding.model!r} returned a vector with NaN or infinite "
                "numbers. Nothing was written."
            )

    @abstractmethod
    async def _aupsert(self, records: list[MemorySearchResult], vectors: list[list[float]]) -> None:
        """Write memories with their vectors, over those that have the same id."""

    @abstractmethod
    async def _anearest(
        self, scope: MemoryScope, vector: list[float], where: Where, limit: int
    ) -> list[MemorySearchResult]:
        """The nearest memories of the scope with scores from 0 to 1, nearest first."""

    @abstractmethod
    async def _aload(self, ids: list[str]) -> list[MemorySearchResult]:
        """The memories of these ids that exist."""


def _over(
    old: MemorySearchResult, new: MemorySearchResult, write_mode: WriteMode
) -> MemorySearchResult:
    """What is kept when a key is stored again: its first day, and the metadata if asked for."""
    metadata = merged_metadata(old.metadata, new.metadata, write_mode)
    return dataclasses.replace(new, metadata=metadata, created_at=old.created_at)
