"""QdrantStore over the network: indexes, outages, secrets, and several processes."""

import asyncio
import json
import logging
import sys
from collections.abc import Iterator

import pytest
from servers.qdrant import QdrantServer

from tenxgraph.core.exceptions import StoreError
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage.store import NewMemory, QdrantStore, create_remote_qdrant_store
from tenxgraph.testing import HashEmbedding

ALICE = {"user_id": "alice"}
BOB = {"user_id": "bob"}


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


async def test_every_field_that_is_filtered_on_has_an_index(server: QdrantServer) -> None:
    async with create_remote_qdrant_store(HashEmbedding(), server.url) as store:
        await store.asetup()
        indexes = server.indexes["tenxgraph_memories"]
        assert set(indexes) == {
            "user_id",
            "agent_id",
            "app_id",
            "memory_type",
            "category",
            "memory_key",
            "thread_id",
        }
        assert indexes["user_id"]["is_tenant"] is True
        learnt = {"user_id": "alice", "agent_id": "a", "app_id": "b", "thread_id": "t"}
        await store.astore(learnt, "likes tea", "semantic", "drinks", memory_key="drink")
        filters = {"memory_key": ["drink", "food"], "thread_id": "t"}
        found = await store.asearch(
            learnt, "tea", memory_type="semantic", category="drinks", filters=filters
        )
        assert [memory.content for memory in found] == ["likes tea"]


async def test_an_index_that_is_missing_is_added_at_setup(server: QdrantServer) -> None:
    async with create_remote_qdrant_store(HashEmbedding(), server.url) as store:
        await store.asetup()
    del server.indexes["tenxgraph_memories"]["category"]
    async with create_remote_qdrant_store(HashEmbedding(), server.url) as store:
        assert await store.asearch(ALICE, "x", category="drinks") == []


async def test_the_whole_life_of_memories(server: QdrantServer) -> None:
    async with QdrantStore(HashEmbedding(), host="127.0.0.1", port=int(server.url[-5:])) as store:
        await store.astore_many(ALICE, [NewMemory(content=f"fact {n}") for n in range(600)])
        memory_id = await store.astore(BOB, "likes tea", metadata={"a": 1})
        assert await store.aupdate(BOB, memory_id, "likes coffee", {"b": 2})
        memory = await store.aget(BOB, memory_id)
        assert memory is not None
        assert (memory.content, memory.metadata) == ("likes coffee", {"a": 1, "b": 2})
        assert await store.aget(ALICE, memory_id) is None
        assert await store.aforget_memory(ALICE) == 600
        assert await store.aget_all(ALICE) == []
        assert await store.adelete(BOB, memory_id)


async def test_an_outage_is_an_error_and_never_an_empty_memory(
    server: QdrantServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with create_remote_qdrant_store(HashEmbedding(), server.url) as store:
        await store.astore(ALICE, "likes tea")
        server.down = True
        with pytest.raises(StoreError, match="503"):
            await store.asearch(ALICE, "tea")
        with caplog.at_level(logging.CRITICAL, "tenxgraph.store"):
            reply = json.loads(await memory_tool(query="tea", config=ALICE, store=store))
        assert reply["error"].startswith("memory unavailable: ")
        server.down = False
        assert len(json.loads(await memory_tool(query="tea", config=ALICE, store=store))) == 1


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with QdrantServer() as gone:
        url = gone.url
    async with create_remote_qdrant_store(HashEmbedding(), url) as store:
        with pytest.raises(StoreError, match="collection_exists"):
            await store.astore(ALICE, "x")


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_the_api_key_is_sent_and_never_shown() -> None:
    with QdrantServer(api_key="s3cret") as server:
        store = create_remote_qdrant_store(HashEmbedding(), server.url, api_key="s3cret")
        async with store:
            await store.astore(ALICE, "x")
            server.down = True
            with pytest.raises(StoreError) as raised:
                await store.asearch(ALICE, "x")
            assert "s3cret" not in repr(store) + str(raised.value)
        async with create_remote_qdrant_store(HashEmbedding(), server.url) as stranger:
            with pytest.raises(StoreError, match="403"):
                await stranger.asetup()


def test_the_sync_twins_and_several_event_loops_reach_one_server(server: QdrantServer) -> None:
    store = create_remote_qdrant_store(HashEmbedding(), server.url)

    async def use() -> None:
        await store.astore(ALICE, "x")
        await store.aclose()

    asyncio.run(use())
    asyncio.run(use())
    store.store(ALICE, "x")
    assert len(store.get_all(ALICE)) == 3
    store.close()


WRITER = """
import asyncio, sys
from tenxgraph.storage.store import create_remote_qdrant_store
from tenxgraph.testing import HashEmbedding

async def main(url, number):
    async with create_remote_qdrant_store(HashEmbedding(), url) as store:
        writes = (
            store.astore({"user_id": "alice"}, f"value {number}.{n}", memory_key="color")
            for n in range(20)
        )
        print(len(set(await asyncio.gather(*writes))))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


async def test_one_key_stored_by_four_processes_at_once_has_one_memory(
    server: QdrantServer,
) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, server.url, str(n), stdout=asyncio.subprocess.PIPE
        )
        for n in range(4)
    ]
    printed = [(await process.communicate())[0] for process in processes]
    assert printed == [b"1\n"] * 4
    async with create_remote_qdrant_store(HashEmbedding(), server.url) as store:
        assert [m.memory_key for m in await store.aget_all(ALICE)] == ["color"]
