"""Mem0Store on the real Mem0, its own local Qdrant, and a local OpenAI-protocol server."""

import importlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store import Mem0Store, NewMemory
from tenxgraph.testing import OpenAIServer, ServerError

os.environ["MEM0_TELEMETRY"] = "False"

ALICE = {"user_id": "alice"}


PROGRAM = """
import asyncio, atexit, sys
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage.store import Mem0Store

folder, base_url = sys.argv[1:]
service = {{"provider": "openai", "config": {{"api_key": "k", "openai_base_url": base_url}}}}
database = {{"path": folder + "/qdrant", "collection_name": "memories"}}
store = Mem0Store({{
    "vector_store": {{"provider": "qdrant", "config": database}},
    "llm": service,
    "embedder": service,
    "history_db_path": folder + "/history.db",
}})

async def main():
    {what}

asyncio.run(main())
"""
REMEMBER = """
    atexit.register(lambda: print(store.writes.stats.landed == 1))
    await memory_tool(action="store", content="x", config={"user_id": "u"}, store=store)
"""
OPEN_AND_CLOSE = """
    await store.astore({"user_id": "u"}, "x")
    await store.aclose()
"""


def run(what: str, folder: Path, server: OpenAIServer) -> tuple[int, str, str]:
    """Run a program of its own, whose server is not: it would end with the program."""
    command = [sys.executable, "-W", "default::ResourceWarning", "-c", PROGRAM.format(what=what)]
    done = subprocess.run(
        [*command, str(folder), server.base_url], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def config(server: OpenAIServer, tmp_path: Path) -> dict[str, Any]:
    service = {"provider": "openai", "config": {"api_key": "k", "openai_base_url": server.base_url}}
    database = {"path": str(tmp_path / "qdrant"), "collection_name": "memories"}
    return {
        "vector_store": {"provider": "qdrant", "config": database},
        "llm": service,
        "embedder": service,
        "history_db_path": str(tmp_path / "history.db"),
    }


@pytest.fixture
async def store(config: dict[str, Any]) -> AsyncIterator[Mem0Store]:
    async with Mem0Store(config=config) as store:
        yield store


async def test_a_text_is_stored_as_it_is_and_no_model_is_asked(
    store: Mem0Store, server: OpenAIServer
) -> None:
    text = "My name is Alice,  and I like tea.\nBob does not."
    memory_id = await store.astore(ALICE, text)
    memory = await store.aget(ALICE, memory_id)
    assert memory is not None
    assert memory.content == text
    assert server.requests_to("/v1/chat/completions") == []
    assert server.requests_to("/v1/embeddings")


async def test_a_config_can_be_mem0s_own_object(config: dict[str, Any]) -> None:
    of_mem0 = importlib.import_module("mem0.configs.base").MemoryConfig(**config)
    async with Mem0Store(config=of_mem0) as store:
        await store.astore(ALICE, "likes tea")
    async with Mem0Store(config=config) as store:
        assert [memory.content for memory in await store.aget_all(ALICE)] == ["likes tea"]


async def test_an_application_sees_its_own_memories_only(config: dict[str, Any]) -> None:
    shop = Mem0Store(config=config, app_id="shop")
    memory_id = await shop.astore(ALICE, "bought shoes", memory_key="order")
    memory = await shop.aget(ALICE, memory_id)
    assert memory is not None
    assert memory.app_id == "shop"
    await shop.astore({"agent_id": "clerk"}, "returns are free")
    await shop.aclose()

    async with Mem0Store(config=config, app_id="bank") as bank:
        assert await bank.aget(ALICE, memory_id) is None
        assert not await bank.aupdate(ALICE, memory_id, "stolen")
        assert not await bank.adelete(ALICE, memory_id)
        assert await bank.asearch(ALICE, "shoes") == []
        assert await bank.aget_by_key(ALICE, "order") is None
        assert await bank.aget_all({"agent_id": "clerk"}) == []
        assert await bank.aforget_memory(ALICE) == 0
        with pytest.raises(ValueError, match="user_id"):
            await bank.aforget_memory({})
    async with Mem0Store(config=config) as every:
        assert len(await every.aget_all({"app_id": "shop"})) == 1
        assert [memory.content for memory in await every.aget_all(ALICE)] == ["bought shoes"]


async def test_what_mem0_remembered_before_is_found(store: Mem0Store) -> None:
    await store.asetup()
    store._mem0.memory.add("likes green tea", user_id="alice", infer=False)
    store._mem0.memory.add("likes coffee", user_id="bob", infer=False)
    (found,) = await store.asearch(ALICE, "tea")
    assert (found.content, found.memory_type) == ("likes green tea", "episodic")
    assert found.metadata == {}
    assert await store.aupdate(ALICE, found.id, "likes black tea")


async def test_what_mem0_remembered_of_everybody_is_not_a_wildcard_users(store: Mem0Store) -> None:
    await store.asetup()
    for user in ("alice", "bob"):
        store._mem0.memory.add(f"{user} likes tea", user_id=user, infer=False)
    assert await store.asearch({"user_id": "*"}, "tea") == []
    assert await store.aforget_memory({"user_id": "*"}) == 0
    assert await store.aforget_memory({"user_id": " alice"}) == 0
    assert len(await store.aget_all(ALICE)) == 1


async def test_ordinary_ids_are_kept_in_mem0_as_they_are(store: Mem0Store) -> None:
    named = {"user_id": "a@example.com", "agent_id": "auth0|7", "app_id": "my shop"}
    memory_id = await store.astore(named, "likes tea")
    kept = store._mem0.memory.vector_store.get(memory_id).payload
    assert {name: kept[name] for name in named} == named
    (found,) = store._mem0.memory.get_all(filters={"user_id": "a@example.com"})["results"]
    assert found["id"] == memory_id


async def test_a_database_that_filters_late_still_fills_the_limit(
    store: Mem0Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some look for the nearest of all users, twice as many as asked for, and filter those."""
    far = {await store.astore(ALICE, f"tea number {n}") for n in range(3)}
    await store.astore_many({"user_id": "bob"}, [NewMemory(content="green") for _ in range(150)])
    database = store._mem0.memory.vector_store
    search = type(database).search

    def search_late(query: str, vectors: Any, top_k: int, filters: dict[str, Any]) -> list[Any]:
        nearest = search(database, query, vectors, top_k * 2, None)
        fit = [one for one in nearest if all(one.payload.get(k) == v for k, v in filters.items())]
        return fit[:top_k]

    monkeypatch.setattr(database, "search", search_late)
    asked = {"filters": ALICE, "top_k": 3, "threshold": 0.0}
    assert store._mem0.memory.search("green", **asked)["results"] == []
    assert {memory.id for memory in await store.asearch(ALICE, "green", limit=3)} == far


@pytest.mark.parametrize("app_id", ["", " ", True, 1.5, ["shop"]])
def test_an_app_id_that_is_no_id_is_refused(config: dict[str, Any], app_id: Any) -> None:
    with pytest.raises(ValueError, match="app_id"):
        Mem0Store(config, app_id=app_id)


async def test_a_double_that_another_process_made_is_removed(store: Mem0Store) -> None:
    first = await store.astore(ALICE, "blue", memory_key="color")
    twin = store._mem0.memory.vector_store.client.retrieve("memories", [first])[0].payload
    store._mem0.memory.add(
        "green",
        user_id="alice",
        run_id="tenxgraph",
        metadata={k: twin[k] for k in ("derived_id", "memory_key", "owner", "metadata")},
        infer=False,
    )
    assert len(await store.aget_all(ALICE)) == 2
    await store.astore(ALICE, "red", memory_key="color")
    assert [memory.content for memory in await store.aget_all(ALICE)] == ["red"]


async def test_an_outage_is_a_store_error(store: Mem0Store, server: OpenAIServer) -> None:
    await store.astore(ALICE, "likes tea")
    server.fail_embeddings(ServerError(401, "no such key"))
    with pytest.raises(StoreError, match=r"Mem0 failed.*AuthenticationError"):
        await store.asearch(ALICE, "tea")
    assert len(await store.asearch(ALICE, "tea")) == 1


def test_the_end_of_the_program_waits_for_its_writes_and_is_quiet(tmp_path: Path) -> None:
    with OpenAIServer(delay=0.3) as server:
        code, output, errors = run(REMEMBER, tmp_path, server)
    assert (code, output) == (0, "True\n")
    assert "Exception ignored" not in errors


def test_a_closed_store_leaves_nothing_to_the_garbage_collector(
    tmp_path: Path, server: OpenAIServer
) -> None:
    code, _, errors = run(OPEN_AND_CLOSE, tmp_path, server)
    assert code == 0
    assert "ResourceWarning" not in errors


async def test_closing_closes_what_mem0_talks_through(store: Mem0Store) -> None:
    await store.asetup()
    memory = store._mem0.memory
    await store.aclose()
    assert memory.embedding_model.client.is_closed()
    assert memory.llm.client.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        memory.vector_store.client.get_collections()


async def test_a_client_of_the_applications_stays_open(config: dict[str, Any]) -> None:
    client = QdrantClient(location=":memory:")
    config["vector_store"]["config"] |= {"client": client}
    async with Mem0Store(config=config) as store:
        await store.astore(ALICE, "likes tea")
    assert [memory.content for memory in await store.aget_all(ALICE)] == ["likes tea"]
    await store.aclose()
    client.close()


def test_a_config_that_is_wrong_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="provider"):
        Mem0Store(config={"vector_store": {"provider": "no such database"}})


def test_without_the_package_the_constructor_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mem0.configs.base", None)
    with pytest.raises(ImportError, match=r"tenxgraph\[mem0\]"):
        Mem0Store(config={})
