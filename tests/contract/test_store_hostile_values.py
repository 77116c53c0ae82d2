"""Ids, labels and texts that are operators of the engine behind a store: to it they are names."""

import json
from typing import Any

import pytest
from hostile import VALUES

from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage.store import BaseStore, NewMemory

ALICE = {"user_id": "alice"}
SHARED = {"agent_id": "alice", "app_id": "alice"}


async def ids_of(store: BaseStore, config: dict[str, str]) -> list[str]:
    return sorted(memory.id for memory in await store.aget_all(config, limit=1000))


async def found_by(store: BaseStore, config: dict[str, str], **filters: Any) -> list[str]:
    found = await store.asearch(config, "secret", limit=1000, **filters)
    return sorted(memory.id for memory in found)


async def test_a_hostile_user_has_their_own_memories_and_no_others(store: BaseStore) -> None:
    alices = await store.astore(ALICE, "secret of alice", memory_key="k")
    shared = await store.astore(SHARED, "secret of the agent", memory_key="k")
    own = {}
    for user in VALUES:
        mine = {"user_id": user}
        assert await ids_of(store, mine) == []
        own[user] = await store.astore(mine, f"secret of {user}", memory_key="k")
    for user, memory_id in own.items():
        mine = {"user_id": user}
        assert await ids_of(store, mine) == [memory_id], user
        assert await found_by(store, mine) == [memory_id], user
        keyed = await store.aget_by_key(mine, "k")
        assert keyed is not None
        assert (keyed.id, keyed.user_id) == (memory_id, user)
        assert await store.aget(mine, shared) is None
        assert not await store.aupdate(mine, alices, "stolen")
        assert not await store.adelete(mine, alices)
    assert await ids_of(store, ALICE) == [alices]
    assert await ids_of(store, SHARED) == [shared]


async def test_forgetting_a_hostile_user_deletes_their_memories_alone(store: BaseStore) -> None:
    alices = await store.astore(ALICE, "secret of alice")
    for user in VALUES:
        await store.astore({"user_id": user}, f"secret of {user}")
    for number, user in enumerate(VALUES):
        assert await store.aforget_memory({"user_id": user}) == 1, user
        assert await ids_of(store, {"user_id": user}) == []
        for other in VALUES[number + 1 : number + 2]:
            assert len(await ids_of(store, {"user_id": other})) == 1, (user, other)
    (memory,) = await store.aget_all(ALICE)
    assert (memory.id, memory.content) == (alices, "secret of alice")


@pytest.mark.parametrize("name", ["agent_id", "app_id"])
async def test_a_hostile_agent_or_application_shares_its_own_memories_alone(
    store: BaseStore, name: str
) -> None:
    alices = await store.astore({name: "alice"}, "secret of alice")
    own = {value: await store.astore({name: value}, "secret") for value in VALUES}
    personal = await store.astore({"user_id": "alice", name: "*"}, "secret of the user")
    for value, memory_id in own.items():
        assert await ids_of(store, {name: value}) == [memory_id], value
        assert await found_by(store, {"user_id": "alice", name: value}) == (
            [personal] if value == "*" else []
        )
    assert await store.aforget_memory({name: "*"}) == 1
    assert await ids_of(store, {name: "alice"}) == [alices]
    assert await ids_of(store, {"user_id": "alice", name: "*"}) == [personal]


async def test_hostile_labels_are_filtered_by_plain_equality(store: BaseStore) -> None:
    labels = [value for value in VALUES if value.strip()]
    ids = {}
    for label in labels:
        mine = {**ALICE, "thread_id": label}
        ids[label] = await store.astore(mine, "secret", category=label, memory_key=label)
    await store.astore({"user_id": "*"}, "secret", category="*", memory_key="*")
    for number, (label, memory_id) in enumerate(ids.items()):
        fields = ["category", "memory_key", "thread_id"]
        for name in fields if label == "*" else [fields[number % 3]]:  # each label in one of them
            assert await found_by(store, ALICE, filters={name: label}) == [memory_id], label
        keyed = await store.aget_by_key(ALICE, label)
        assert keyed is not None
        assert (keyed.id, keyed.category, keyed.thread_id) == (memory_id, label, label)
    several = await found_by(store, ALICE, filters={"category": ["*", "AND", "nowhere"]})
    assert several == sorted([ids["*"], ids["AND"]])
    assert await found_by(store, ALICE, memory_type="*") == []
    assert await found_by(store, ALICE, filters={"memory_type": ["*", "NOT"]}) == []


async def test_a_limit_is_filled_although_many_others_are_nearer(store: BaseStore) -> None:
    near = [NewMemory(content="secret", category=f"c{n}") for n in range(90)]
    await store.astore_many(ALICE, near)
    far = [await store.astore(ALICE, f"tea number {n}", category="*") for n in range(3)]
    nearest = await store.astore(ALICE, "secret of old", category="*")
    found = await store.asearch(ALICE, "secret", category="*", limit=2)
    assert found[0].id == nearest
    assert len(found) == 2
    assert set(await found_by(store, ALICE, category="*")) == {nearest, *far}


async def test_hostile_texts_are_remembered_and_looked_for_as_they_are(store: BaseStore) -> None:
    await store.astore({"user_id": "bob"}, "secret of bob")
    ids = [await store.astore(ALICE, text) for text in VALUES]
    for memory_id, text in zip(ids, VALUES, strict=True):
        memory = await store.aget(ALICE, memory_id)
        assert memory is not None
        assert memory.content == text
        found = await store.asearch(ALICE, text, limit=len(VALUES) + 5)
        assert {one.id for one in found} <= set(ids)
        assert found[0].score > 0.9, text


async def test_hostile_ids_of_memories_and_cursors_name_nothing(store: BaseStore) -> None:
    memory_id = await store.astore(ALICE, "secret")
    for value in VALUES:
        assert await store.aget(ALICE, value) is None
        assert not await store.aupdate(ALICE, value, "stolen")
        assert not await store.adelete(ALICE, value)
        with pytest.raises(ValueError, match="cursor"):
            await store.aget_all(ALICE, cursor=value)
        with pytest.raises(ValueError, match="filters"):
            await store.asearch(ALICE, "secret", filters={value: "x"})
    for operator in ({"$ne": None}, {"in": ["a"]}, [{"eq": "a"}], [None], None, [], [["*"]]):
        with pytest.raises(ValueError, match="category"):
            await store.asearch(ALICE, "secret", filters={"category": operator})
    assert await ids_of(store, ALICE) == [memory_id]


async def test_the_cursor_of_somebody_else_pages_through_ones_own(store: BaseStore) -> None:
    await store.astore_many(ALICE, [NewMemory(content=f"secret {n}") for n in range(6)])
    theirs = (await store.aget_all(ALICE, limit=2)).cursor
    for user in ("*", "%", '{"$ne": null}', " alice"):
        mine = {"user_id": user}
        own = [await store.astore(mine, f"own {n}") for n in range(4)]
        page = await store.aget_all(mine, limit=1000, cursor=theirs)
        assert {memory.id for memory in page} <= set(own)
        assert await store.aforget_memory(mine) == 4
    assert len(await ids_of(store, ALICE)) == 6


async def test_metadata_named_like_fields_of_the_engine_changes_no_scope(store: BaseStore) -> None:
    names = ("user_id", "agent_id", "app_id", "run_id", "owner", "derived_id", "data", "content")
    metadata: dict[str, Any] = dict.fromkeys(names, "bob")
    metadata |= {"expiration_date": "2000-01-01", "category": "*", "AND": [{"user_id": "*"}]}
    metadata |= {value: value for value in VALUES}
    memory_id = await store.astore(ALICE, "secret", metadata=metadata)
    assert await store.aupdate(ALICE, memory_id, "secret still", {"user_id": "*"})
    (memory,) = await store.asearch(ALICE, "secret")
    assert (memory.user_id, memory.content) == ("alice", "secret still")
    assert memory.metadata == metadata | {"user_id": "*"}
    for scope in ({"user_id": "bob"}, {"user_id": "*"}, {"agent_id": "bob"}, {"app_id": "bob"}):
        assert await ids_of(store, scope) == []


async def test_the_memory_tool_of_a_hostile_user_reaches_their_memories_alone(
    store: BaseStore,
) -> None:
    alices = await store.astore(ALICE, "secret of alice", category="c")
    for user in ("*", "%", " alice", "NOT", '{"$ne": null}'):
        config = {"user_id": user}
        await memory_tool("update", content="x", memory_id=alices, config=config, store=store)
        await store.aflush()
        told = json.loads(await memory_tool(query="secret", config=config, store=store))
        assert "There is no memory" in told["error"]
        await memory_tool("delete", memory_id=alices, config=config, store=store)
        assert json.loads(await memory_tool(query="secret", config=config, store=store)) == []
        await memory_tool(action="store", content="own", category="*", config=config, store=store)
        found = await memory_tool(query="secret", category="*", config=config, store=store)
        assert [memory["content"] for memory in json.loads(found)] == ["own"], user
    (memory,) = await store.aget_all(ALICE)
    assert (memory.id, memory.content) == (alices, "secret of alice")
