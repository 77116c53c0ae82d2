"""A store in this process, for tests and trials."""

import bisect
import copy
import dataclasses
import heapq
import math
import threading
from collections.abc import Sequence
from operator import mul

from tenxgraph.storage.store.embedding.base import BaseEmbedding
from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.query import Where, matches
from tenxgraph.storage.store.records import MemoryPage, MemorySearchResult
from tenxgraph.storage.store.scores import Distance, checked_distance, score_of
from tenxgraph.storage.store.vector import VectorStore

__all__ = ["InMemoryStore"]


class InMemoryStore(VectorStore):
    """Keeps the promise of a store in a dict; everything is gone with the process.

    A search compares the query with every memory: meant for hundreds, not for millions.

    Args:
        embedding: makes the vectors; `tenxgraph.testing.HashEmbedding` needs no network.
        distance: `"cosine"`, `"dot"` or `"euclid"`.
    """

    def __init__(self, embedding: BaseEmbedding, distance: Distance = "cosine") -> None:
        super().__init__(embedding)
        self._distance = checked_distance(distance)
        self._lock = threading.Lock()
        self._memories: dict[str, tuple[MemorySearchResult, list[float]]] = {}

    @property
    def serves_one_process(self) -> bool:
        """It does."""
        return True

    async def _aupsert(self, records: list[MemorySearchResult], vectors: list[list[float]]) -> None:
        with self._lock:
            for record, vector in zip(records, vectors, strict=True):
                self._memories[record.id] = (record, vector)

    async def _anearest(
        self, scope: MemoryScope, vector: list[float], where: Where, limit: int
    ) -> list[MemorySearchResult]:
        with self._lock:
            kept = list(self._memories.values())
        scored = [
            _copy(record, score_of(self._distance, self._measure(vector, own)))
            for record, own in kept
            if scope.holds(record) and matches(record, where)
        ]
        return heapq.nlargest(limit, scored, key=lambda memory: memory.score)

    async def _aload(self, ids: list[str]) -> list[MemorySearchResult]:
        with self._lock:
            return [_copy(self._memories[i][0]) for i in ids if i in self._memories]

    async def _apage(self, scope: MemoryScope, limit: int, cursor: str | None) -> MemoryPage:
        with self._lock:
            kept = [record for record, _ in self._memories.values() if scope.holds(record)]
        kept.sort(key=lambda memory: memory.id)
        start = bisect.bisect_right(kept, cursor or "", key=lambda memory: memory.id)
        page = [_copy(record) for record in kept[start : start + limit]]
        return MemoryPage(page, page[-1].id if start + limit < len(kept) else None)

    async def _aremove(self, scope: MemoryScope, ids: Sequence[str]) -> None:
        with self._lock:
            for memory_id in ids:
                self._memories.pop(memory_id, None)

    def _measure(self, one: list[float], other: list[float]) -> float:
        if self._distance == "euclid":
            return math.dist(one, other)
        product: float = sum(map(mul, one, other))
        if self._distance == "dot":
            return product
        lengths = math.hypot(*one) * math.hypot(*other)
        return product / (lengths or 1.0)


def _copy(record: MemorySearchResult, score: float = 1.0) -> MemorySearchResult:
    """What the caller does to a memory must not change the one that is kept."""
    return dataclasses.replace(record, score=score, metadata=copy.deepcopy(record.metadata))
