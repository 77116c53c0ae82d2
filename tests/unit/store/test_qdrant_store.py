"""QdrantStore in a folder: what it checks, shares, and measures."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store import BaseEmbedding, InMemoryStore, NewMemory, QdrantStore
from tenxgraph.testing import HashEmbedding

ALICE = {"user_id": "alice"}


class Renamed(HashEmbedding):
    @property
    def model(self) -> str:
        return "another-model"


class Fixed(BaseEmbedding):
    """Gives each text the vector it is told to."""

    def __init__(self, vectors: dict[str, list[float]], dimension: int = 2) -> None:
        self.vectors = vectors
        self.length = dimension

    @property
    def dimension(self) -> int:
        return self.length

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]


async def test_a_collection_of_another_dimension_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with QdrantStore(HashEmbedding(64), path=tmp_path) as store:
        memory_id = await store.astore(ALICE, "likes tea")
    async with QdrantStore(HashEmbedding(32), path=tmp_path) as other:
        with pytest.raises(StoreError, match=r"64 numbers.*makes 32") as raised:
            await other.asetup()
        with pytest.raises(StoreError):
            await other.astore(ALICE, "x")
    assert "collection=" in str(raised.value)
    async with QdrantStore(HashEmbedding(64), path=tmp_path) as store:
        assert await store.aget(ALICE, memory_id) is not None
        assert len(await store.aget_all(ALICE)) == 1


async def test_a_collection_of_another_model_is_refused(tmp_path: Path) -> None:
    async with QdrantStore(HashEmbedding(64), path=tmp_path) as store:
        await store.asetup()
    async with QdrantStore(Renamed(64), path=tmp_path) as other:
        with pytest.raises(StoreError, match=r"'HashEmbedding', not 'another-model'"):
            await other.asetup()


async def test_a_collection_of_another_distance_is_refused(tmp_path: Path) -> None:
    async with QdrantStore(HashEmbedding(64), path=tmp_path) as store:
        await store.asetup()
    async with QdrantStore(HashEmbedding(64), path=tmp_path, distance="dot") as other:
        with pytest.raises(StoreError, match="distance"):
            await other.asetup()


async def test_a_collection_that_says_no_model_is_taken_if_it_fits(tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path))
    vectors = models.VectorParams(size=64, distance=models.Distance.COSINE)
    client.create_collection("tenxgraph_memories", vectors_config=vectors)
    client.close()
    async with QdrantStore(HashEmbedding(64), path=tmp_path) as store:
        await store.astore(ALICE, "likes tea")
        assert len(await store.asearch(ALICE, "tea")) == 1


@pytest.mark.parametrize("distance", ["cosine", "dot", "euclid"])
@pytest.mark.parametrize("kind", ["qdrant", "in_memory"])
async def test_a_score_means_the_same_for_each_distance(distance: str, kind: str) -> None:
    vectors = {"cat": [2.0, 0.0], "same": [2.0, 0.0], "near": [1.5, 0.9], "far": [-1.0, 0.5]}
    store: QdrantStore | InMemoryStore
    if kind == "qdrant":
        store = QdrantStore(Fixed(vectors), path=":memory:", distance=distance)  # type: ignore[arg-type]
    else:
        store = InMemoryStore(Fixed(vectors), distance=distance)  # type: ignore[arg-type]
    async with store:
        for text in ("far", "same", "near"):
            await store.astore(ALICE, text)
        found = await store.asearch(ALICE, "cat", limit=3)
        assert [memory.content for memory in found] == ["same", "near", "far"]
        first, second, third = [memory.score for memory in found]
        assert 1 >= first > second > third >= 0
        kept = await store.asearch(ALICE, "cat", score_threshold=second)
        assert [memory.content for memory in kept] == ["same", "near"]
        assert len(await store.asearch(ALICE, "cat", limit=2)) == 2


@pytest.mark.parametrize("others", [0, 30, 200])
async def test_a_search_among_many_users_finds_all_that_is_ones_own(others: int) -> None:
    vectors = {"cat": [1.0, 0.0], "far": [0.1, 1.0], "near": [1.0, 0.1]}
    async with QdrantStore(Fixed(vectors), path=":memory:") as store:
        await store.astore_many({"user_id": "bob"}, [NewMemory(content="near")] * others)
        ids = await store.astore_many(ALICE, [NewMemory(content="far")] * 7)
        labelled = await store.astore(ALICE, "far", category="odd")
        found = await store.asearch(ALICE, "cat", limit=20)
        assert {memory.id for memory in found} == {*ids, labelled}
        found = await store.asearch(ALICE, "cat", limit=20, category="odd")
        assert [memory.id for memory in found] == [labelled]
        assert len(await store.asearch(ALICE, "cat", limit=3)) == 3


@pytest.mark.parametrize("vector", [[1.0], [1.0, 2.0, 3.0], [1.0, float("nan")], [float("inf"), 0]])
async def test_a_vector_that_is_none_is_refused_before_anything_is_written(
    vector: list[float],
) -> None:
    embedding = Fixed({"good": [1.0, 0.0], "bad": vector})
    async with QdrantStore(embedding, path=":memory:") as store:
        await store.astore(ALICE, "good")
        with pytest.raises(StoreError, match="Nothing was written"):
            await store.astore(ALICE, "bad")
        assert [memory.content for memory in await store.aget_all(ALICE)] == ["good"]


async def test_vectors_that_are_missing_are_noticed() -> None:
    class Forgetful(HashEmbedding):
        async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            return []

    async with QdrantStore(Forgetful(), path=":memory:") as store:
        with pytest.raises(StoreError, match="0 vectors for 1 texts"):
            await store.astore(ALICE, "x")


async def test_whatever_an_embedding_raises_is_a_store_error() -> None:
    class Broken(HashEmbedding):
        async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            raise KeyError("token")

    async with InMemoryStore(Broken()) as store:
        with pytest.raises(StoreError, match=r"'Broken' is unavailable\. KeyError"):
            await store.asearch(ALICE, "x")


async def test_stores_of_one_process_share_a_folder(tmp_path: Path) -> None:
    one = QdrantStore(HashEmbedding(), path=tmp_path)
    two = QdrantStore(HashEmbedding(), path=str(tmp_path / "." / "sub" / ".."))
    await asyncio.gather(*(store.astore(ALICE, "x") for store in (one, two) for _ in range(10)))
    assert len(await two.aget_all(ALICE)) == 20
    await one.aclose()
    assert len(await two.aget_all(ALICE)) == 20
    await two.aclose()
    client = QdrantClient(path=str(tmp_path))  # would fail if the folder were still locked
    client.close()


async def test_two_stores_in_memory_share_nothing() -> None:
    one = QdrantStore(HashEmbedding(), path=":memory:")
    two = QdrantStore(HashEmbedding(), path=":memory:")
    await one.astore(ALICE, "x")
    assert await two.aget_all(ALICE) == []


async def test_a_folder_in_use_by_another_process_says_what_to_do(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from tenxgraph.storage.store import create_local_qdrant_store\n"
        "from tenxgraph.testing import HashEmbedding\n"
        "create_local_qdrant_store(sys.argv[1], HashEmbedding()).setup()"
    )
    async with QdrantStore(HashEmbedding(), path=tmp_path) as store:
        await store.asetup()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(tmp_path), stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
    assert b"StoreError: The folder" in errors
    assert b"in use by another process" in errors
    assert b"`url=`" in errors


async def test_a_long_write_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.001)
            beats += 1

    async with QdrantStore(Fixed({"x": [1.0, 0.0]}), path=tmp_path) as store:
        await store.asetup()
        beating = asyncio.create_task(beat())
        await store.astore_many(ALICE, [NewMemory(content="x")] * 500)
        beating.cancel()
    assert beats >= 5


@pytest.mark.parametrize(
    "where", [{}, {"path": "x", "url": "http://x"}, {"host": "x", "url": "http://x"}]
)
def test_the_place_must_be_clear(where: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        QdrantStore(HashEmbedding(), **where)  # type: ignore[arg-type]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="BaseEmbedding"):
        QdrantStore("text-embedding-3-small", path=":memory:")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="distance"):
        QdrantStore(HashEmbedding(), path=":memory:", distance="manhattan")  # type: ignore[arg-type]


def test_without_the_package_the_constructor_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(ImportError, match=r"tenxgraph\[qdrant\]"):
        QdrantStore(HashEmbedding(), path=":memory:")


def test_the_package_imports_without_any_vendor() -> None:
    script = (
        "import sys\n"
        "for name in ('qdrant_client', 'mem0', 'openai', 'numpy', 'wordllama'):\n"
        "    sys.modules[name] = None\n"
        "import tenxgraph.storage.store, tenxgraph.prebuilt.tools, tenxgraph.testing\n"
        "from tenxgraph.storage.store import InMemoryStore\n"
        "from tenxgraph.testing import HashEmbedding\n"
        "store = InMemoryStore(HashEmbedding())\n"
        "store.store({'user_id': 'u'}, 'likes tea')\n"
        "print(store.search({'user_id': 'u'}, 'tea')[0].content)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("likes tea\n", "")


async def test_no_request_is_larger_than_qdrant_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    call = QdrantStore._call

    async def measured(self: QdrantStore, method: str, **arguments: Any) -> Any:
        if method == "upsert":
            sizes.append(sum(len(point.model_dump_json()) for point in arguments["points"]))
        return await call(self, method, **arguments)

    monkeypatch.setattr(QdrantStore, "_call", measured)
    text = "é " * 2**20
    async with QdrantStore(Fixed({text: [1.0, 0.0]}), path=":memory:") as store:
        await store.astore_many(ALICE, [NewMemory(content=text) for _ in range(30)])
        assert len(await store.aget_all(ALICE)) == 30
    assert len(sizes) > 1
    assert max(sizes) < 32 * 10**6
