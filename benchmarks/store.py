"""What long-term memory costs beside the bare Qdrant client, as ratios.

    python benchmarks/store.py [--memories 10000] [--dimension 384]

Both sides do the same work in a local Qdrant: the store, and the official client called as the
documentation of Qdrant shows it. Embedding is instant, so that only the store is measured. The
exit code is 1 if a number misses its target.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from qdrant_client import QdrantClient, models

from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage.store import InMemoryStore, NewMemory, create_local_qdrant_store
from tenxgraph.storage.store.embedding import BaseEmbedding
from tenxgraph.testing import HashEmbedding

COLLECTION = "tenxgraph_memories"
USER = {"user_id": "alice"}
BATCH = 1_000
SEARCHES = 40
ROUNDS = 5
BATCH_ROUNDS = 9  # each point is a commit, and what a disk takes for one varies


class Instant(BaseEmbedding):
    """Random vectors made beforehand, one for each number at the end of a text."""

    def __init__(self, dimension: int) -> None:
        numbers = random.Random(1)
        self.length = dimension
        self.vectors = [[numbers.gauss(0, 1) for _ in range(dimension)] for _ in range(500)]

    @property
    def dimension(self) -> int:
        return self.length

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors[int(text.rsplit(maxsplit=1)[-1]) % 500] for text in texts]


class Second(HashEmbedding):
    """Takes one second."""

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(1)
        return await super().aembed_batch(texts)


def memories(count: int) -> list[NewMemory]:
    return [NewMemory(content=f"fact number {n}", metadata={"number": n}) for n in range(count)]


def points(embedding: Instant, count: int, start: int = 0) -> list[models.PointStruct]:
    now = datetime.now(UTC).isoformat()
    return [
        models.PointStruct(
            id=start + n,
            vector=embedding.vectors[n % 500],
            payload={
                "content": f"fact number {n}",
                "metadata": {"number": n},
                "memory_type": "episodic",
                "category": "general",
                "user_id": "alice",
                "created_at": now,
                "updated_at": now,
            },
        )
        for n in range(count)
    ]


def of_alice() -> models.Filter:
    match = models.MatchValue(value="alice")
    return models.Filter(must=[models.FieldCondition(key="user_id", match=match)])


async def timed(work: Callable[[int], Awaitable[object]], times: int) -> list[float]:
    taken = []
    for number in range(times):
        begun = time.perf_counter()
        await work(number)
        taken.append(time.perf_counter() - begun)
    return taken


async def search_store(folder: Path, embedding: Instant) -> float:
    async with create_local_qdrant_store(folder, embedding) as store:
        await store.asetup()
        taken = await timed(lambda n: store.asearch(USER, f"question {n}"), SEARCHES)
    return statistics.median(taken)


async def search_bare(folder: Path, embedding: Instant, wanted: models.Filter | None) -> float:
    client = QdrantClient(path=str(folder))

    async def search(number: int) -> object:
        vector = embedding.vectors[number]
        return client.query_points(COLLECTION, query=vector, query_filter=wanted, limit=5)

    taken = await timed(search, SEARCHES)
    client.close()
    return statistics.median(taken)


async def batch_store(folder: Path, embedding: Instant) -> float:
    async with create_local_qdrant_store(folder, embedding) as store:
        await store.asetup()
        (taken,) = await timed(lambda _: store.astore_many(USER, memories(BATCH)), 1)
    return taken


async def batch_bare(folder: Path, embedding: Instant) -> float:
    client = QdrantClient(path=str(folder))
    vectors = models.VectorParams(size=embedding.length, distance=models.Distance.COSINE)
    client.create_collection(COLLECTION, vectors_config=vectors)

    async def upsert(_: int) -> object:
        return client.upsert(COLLECTION, points(embedding, BATCH))

    (taken,) = await timed(upsert, 1)
    client.close()
    return taken


async def tool_reply() -> float:
    store = InMemoryStore(Second())
    taken = []
    for number in range(20):
        begun = time.perf_counter()
        await memory_tool(action="store", content=f"fact {number}", config=USER, store=store)
        taken.append(time.perf_counter() - begun)
    found = await store.asearch(USER, "fact 19", limit=20)
    assert len(found) == 20
    return max(taken)


def report(name: str, value: str, target: str, *, met: bool) -> bool:
    print(f"{name:<58} {value:>10}   {'ok' if met else 'MISSED'} (target {target})")
    return met


async def main(count: int, dimension: int) -> bool:
    embedding = Instant(dimension)
    slowest = await tool_reply()
    met = report(
        "memory_tool store, embedder takes 1 s: slowest of 20",
        f"{slowest * 1000:.1f} ms",
        "< 20 ms",
        met=slowest < 0.02,
    )
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        async with create_local_qdrant_store(root / "filled", embedding) as store:
            await store.astore_many(USER, memories(count))
        ours, bare, unfiltered = [], [], []
        for _ in range(ROUNDS):
            ours.append(await search_store(root / "filled", embedding))
            bare.append(await search_bare(root / "filled", embedding, of_alice()))
            unfiltered.append(await search_bare(root / "filled", embedding, None))
        ratio = min(ours) / min(bare)
        print(
            f"a search among {count:,}: {min(ours) * 1000:.2f} ms, bare {min(bare) * 1000:.2f} ms"
        )
        print(f"    (bare, but of all users' memories: {min(unfiltered) * 1000:.2f} ms)")
        met &= report("search / bare client", f"{ratio:.2f}", "<= 1.20", met=ratio <= 1.2)
        ratio = min(ours) / min(unfiltered)
        met &= report("search / bare without a filter", f"{ratio:.2f}", "<= 1.20", met=ratio <= 1.2)

        ours, bare = [], []
        for number in range(BATCH_ROUNDS):
            ours.append(await batch_store(root / f"ours{number}", embedding))
            bare.append(await batch_bare(root / f"bare{number}", embedding))
        ratio = min(ours) / min(bare)
        print(f"storing {BATCH:,}: {min(ours) * 1000:.0f} ms, bare {min(bare) * 1000:.0f} ms")
        met &= report("batch / bare client", f"{ratio:.2f}", "<= 1.30", met=ratio <= 1.3)
    return met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--dimension", type=int, default=384)
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(main(options.memories, options.dimension)) else 1)
