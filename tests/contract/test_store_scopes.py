"""A key of a scope holds an id, or the call is refused: nothing widens a scope by accident."""

import json
from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum
from typing import Any

import pytest

from tenxgraph.prebuilt.tools import (
    agent_memory_tool,
    memory_tool,
    memory_tools,
    user_memory_tool,
)
from tenxgraph.storage.store import (
    AgentMemoryConfig,
    BaseStore,
    MemoryConfig,
    NewMemory,
    UserMemoryConfig,
)
from tenxgraph.storage.store.prompt import preloaded_memories

SALES = {"agent_id": "sales"}
SHOP = {"app_id": "shop"}
ALICE_AT_SALES = {"user_id": "alice", "agent_id": "sales", "app_id": "shop"}
NO_IDS: tuple[Any, ...] = (
    None,
    "",
    " ",
    "\t\n",
    "\u00a0\u3000",
    True,
    False,
    1.0,
    ["alice"],
    {},
    b"a",
    "a\x00b",
)

CALLS: dict[str, Callable[[BaseStore, Any, str], Awaitable[Any]]] = {
    "store": lambda store, config, _: store.astore(config, "x"),
    "store by key": lambda store, config, _: store.astore(config, "x", memory_key="k"),
    "store many": lambda store, config, _: store.astore_many(config, [NewMemory(content="x")]),
    "search": lambda store, config, _: store.asearch(config, "x"),
    "get": lambda store, config, memory_id: store.aget(config, memory_id),
    "get by key": lambda store, config, _: store.aget_by_key(config, "k"),
    "get all": lambda store, config, _: store.aget_all(config),
    "update": lambda store, config, memory_id: store.aupdate(config, memory_id, "x"),
    "delete": lambda store, config, memory_id: store.adelete(config, memory_id),
    "forget": lambda store, config, _: store.aforget_memory(config),
    "flush": lambda store, config, _: store.aflush(config),
}


def configs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Configs in which one key holds no id, beside keys that hold one."""
    for value in NO_IDS:
        for name in ALICE_AT_SALES:
            yield name, {**ALICE_AT_SALES, name: value}
            yield name, {name: value}
        yield "user_id", {**SALES, "user_id": value}
        yield "user_id", {**SHOP, "user_id": value}
        yield "agent_id", {**SHOP, "agent_id": value}


async def everything(store: BaseStore) -> list[list[tuple[str, str]]]:
    scopes: list[dict[str, str]] = [SALES, SHOP, {"user_id": "alice"}]
    return [sorted((m.id, m.content) for m in await store.aget_all(scope)) for scope in scopes]


async def filled(store: BaseStore) -> str:
    await store.astore(SALES, "shared by sales", memory_key="k")
    await store.astore(SHOP, "shared by the shop", memory_key="k")
    return await store.astore(ALICE_AT_SALES, "of alice", memory_key="k")


async def test_a_key_that_holds_no_id_is_refused_before_anything_is_done(store: BaseStore) -> None:
    memory_id = await filled(store)
    before = await everything(store)
    for name, config in configs():
        for call in CALLS.values():
            with pytest.raises(ValueError, match=f"`{name}`"):
                await call(store, config, memory_id)
    assert await everything(store) == before


async def test_a_memory_tool_tells_of_a_key_that_holds_no_id(store: BaseStore) -> None:
    await filled(store)
    before = await everything(store)
    for name, config in configs():
        for arguments in ({"query": "shared"}, {"action": "store", "content": "x"}):
            told = json.loads(await memory_tool(**arguments, config=config, store=store))  # type: ignore[arg-type]
            assert f"`{name}`" in told["error"]
    assert await store.aflush() == 0
    assert await everything(store) == before


@pytest.mark.parametrize("value", NO_IDS)
async def test_the_other_memory_tools_refuse_it_as_well(store: BaseStore, value: Any) -> None:
    await filled(store)
    told = json.loads(await user_memory_tool(text="x", config={"user_id": value}, store=store))
    assert "`user_id`" in told["error"]
    shared = {**SHOP, "user_id": "alice", "agent_id": value}
    told = json.loads(await agent_memory_tool("shared", config=shared, store=store))
    assert "`agent_id`" in told["error"]
    preload = MemoryConfig(
        retrieval_mode="preload",
        user_memory=UserMemoryConfig(enabled=False),
        agent_memory=AgentMemoryConfig(enabled=True),
    )
    with pytest.raises(ValueError, match="`agent_id`"):
        await preloaded_memories(preload, shared, "shared", store)


async def test_a_configured_id_wins_over_the_one_of_the_run(store: BaseStore) -> None:
    await store.astore({"user_id": "0"}, "of the fixed user")
    await store.astore({"user_id": "alice"}, "of alice")
    memory = MemoryConfig(user_memory=UserMemoryConfig(user_id="0"))
    (tool,) = memory_tools(memory)
    found = json.loads(await tool(text="of", config={"user_id": "alice"}, store=store))
    assert [one["content"] for one in found] == ["of the fixed user"]


class Names(StrEnum):
    ALICE = "alice"


@pytest.mark.parametrize(("one", "same"), [(0, "0"), (-7, "-7"), (10**30, "1" + "0" * 30)])
async def test_a_whole_number_is_the_id_of_its_digits(
    store: BaseStore, one: int, same: str
) -> None:
    for name in ALICE_AT_SALES:
        memory_id = await store.astore({name: one}, "x")
        memory = await store.aget({name: same}, memory_id)
        assert memory is not None
        assert getattr(memory, name) == same


async def test_an_enum_is_the_id_of_its_value(store: BaseStore) -> None:
    memory_id = await store.astore({"user_id": Names.ALICE}, "x")
    memory = await store.aget({"user_id": "alice"}, memory_id)
    assert memory is not None
    assert type(memory.user_id) is str


async def test_a_misspelt_key_does_not_widen_the_scope(store: BaseStore) -> None:
    for misspelt in ({"userid": "alice"}, {"user": "alice"}, {"userId": "alice"}):
        with pytest.raises(ValueError, match="Is `user_id` meant"):
            await store.astore({**misspelt, "agent_id": "sales"}, "Alice's secret")
    assert await store.aget_all({"agent_id": "sales"}) == []
