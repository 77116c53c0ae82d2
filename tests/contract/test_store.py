"""What every store promises, checked on each of them alike."""

import asyncio
import dataclasses
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenxgraph.storage.store import (
    BaseStore,
    NewMemory,
    QdrantStore,
    create_local_qdrant_store,
)
from tenxgraph.storage.store.pending_write import PendingWrite
from tenxgraph.storage.store.promised import carry_out, take_back
from tenxgraph.testing import HashEmbedding

ALICE = {"user_id": "alice"}
BOB = {"user_id": "bob"}

ENDLESS: dict[str, object] = {}
ENDLESS["again"] = ENDLESS


async def contents(store: BaseStore, config: dict[str, str]) -> list[str]:
    return sorted(memory.content for memory in await store.aget_all(config))


async def test_a_search_finds_the_nearest_first_with_scores_from_0_to_1(store: BaseStore) -> None:
    for text in ("the cat sleeps", "the cat eats fish", "taxes are due in April"):
        await store.astore(ALICE, text)
    found = await store.asearch(ALICE, "the cat sleeps")
    assert [memory.content for memory in found][:2] == ["the cat sleeps", "the cat eats fish"]
    scores = [memory.score for memory in found]
    assert scores == sorted(scores, reverse=True)
    assert 0.99 < scores[0] <= 1
    assert all(0 <= score <= 1 for score in scores)


async def test_a_search_keeps_to_its_limit_and_threshold(store: BaseStore) -> None:
    for text in ("red car", "red house", "blue car", "green tree"):
        await store.astore(ALICE, text)
    two = await store.asearch(ALICE, "red car", limit=2)
    assert len(two) == 2
    kept = await store.asearch(ALICE, "red car", score_threshold=two[1].score)
    assert {memory.id for memory in kept} >= {memory.id for memory in two}
    assert all(memory.score >= two[1].score for memory in kept)
    assert [m.content for m in await store.asearch(ALICE, "red car", score_threshold=0.99)] == [
        "red car"
    ]


async def test_a_memory_comes_back_with_all_that_was_said_of_it(store: BaseStore) -> None:
    before = datetime.now(UTC)
    learnt = {"user_id": "alice", "thread_id": "t1", "message_id": "m1", "tool_call_id": "c1"}
    metadata = {"tags": ["a", "b"], "deep": {"n": 1.5, "none": None}, "flag": True, "ü": "\x00"}
    memory_id = await store.astore(
        learnt, "plays chess", "semantic", "hobbies", metadata, memory_key="hobby"
    )
    memory = await store.aget(ALICE, memory_id)
    assert memory is not None
    assert (memory.id, memory.content, memory.score) == (memory_id, "plays chess", 1.0)
    assert (memory.memory_type, memory.category) == ("semantic", "hobbies")
    assert memory.metadata == metadata
    assert (memory.user_id, memory.agent_id, memory.app_id) == ("alice", None, None)
    assert (memory.thread_id, memory.message_id, memory.tool_call_id) == ("t1", "m1", "c1")
    assert memory.memory_key == "hobby"
    assert before <= memory.created_at <= memory.updated_at <= datetime.now(UTC)
    assert [found.metadata for found in await store.asearch(ALICE, "chess")] == [metadata]


async def test_what_a_caller_does_to_a_result_leaves_the_memory_alone(store: BaseStore) -> None:
    memory_id = await store.astore(ALICE, "plays chess", metadata={"tags": ["a"]})
    taken = await store.aget(ALICE, memory_id)
    assert taken is not None
    taken.metadata["tags"].append("b")
    again = await store.aget(ALICE, memory_id)
    assert again is not None
    assert again.metadata == {"tags": ["a"]}


async def test_opposites_are_two_memories(store: BaseStore) -> None:
    first = await store.astore(ALICE, "likes tea")
    second = await store.astore(ALICE, "dislikes tea")
    assert first != second
    assert await contents(store, ALICE) == ["dislikes tea", "likes tea"]


async def test_the_same_text_without_a_key_is_stored_twice(store: BaseStore) -> None:
    assert await store.astore(ALICE, "hello") != await store.astore(ALICE, "hello")
    assert await contents(store, ALICE) == ["hello", "hello"]


async def test_a_key_has_one_memory_which_keeps_its_first_day(store: BaseStore) -> None:
    first_id = await store.astore(ALICE, "blue", metadata={"a": 1}, memory_key="color")
    first = await store.aget(ALICE, first_id)
    await store.astore(ALICE, "green", metadata={"b": 2}, memory_key="color")
    second = await store.aget_by_key(ALICE, "color")
    assert first is not None
    assert second is not None
    assert (second.id, second.content) == (first_id, "green")
    assert second.metadata == {"a": 1, "b": 2}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    await store.astore(ALICE, "red", metadata={"c": 3}, memory_key="color", write_mode="replace")
    third = await store.aget_by_key(ALICE, "color")
    assert third is not None
    assert third.metadata == {"c": 3}
    assert await contents(store, ALICE) == ["red"]


@pytest.mark.parametrize(
    "key",
    [
        "favorite-color",
        "a:b",
        "../x",
        "名前",
        "1-0",
        "-5",
        7,
        "d41d8cd98f00b204e9800998ecf8427e",
        "x" * 500,
    ],
)
async def test_any_text_can_be_a_key(store: BaseStore, key: str | int) -> None:
    await store.astore(ALICE, "v1", memory_key=key)
    await store.astore(BOB, "w", memory_key=key)
    await store.astore(ALICE, "v2", memory_key=key)
    memory = await store.aget_by_key(ALICE, key)
    assert memory is not None
    assert (memory.memory_key, memory.content) == (str(key), "v2")
    assert await contents(store, ALICE) == ["v2"]
    assert await store.adelete(ALICE, memory.id)
    assert await store.aget_by_key(ALICE, key) is None
    assert await contents(store, BOB) == ["w"]


async def test_a_key_stored_many_times_at_once_has_one_memory(store: BaseStore) -> None:
    ids = await asyncio.gather(
        *(store.astore(ALICE, f"value {n}", memory_key="color") for n in range(20))
    )
    assert len(set(ids)) == 1
    assert len(await store.aget_all(ALICE)) == 1


async def test_a_deleted_key_can_be_stored_again(store: BaseStore) -> None:
    memory_id = await store.astore(ALICE, "blue", memory_key="color")
    assert await store.adelete(ALICE, memory_id)
    assert not await store.adelete(ALICE, memory_id)
    await store.astore(ALICE, "red", memory_key="color")
    await store.astore(ALICE, "red", memory_key="color")
    assert await contents(store, ALICE) == ["red"]


async def test_repeating_a_write_makes_no_second_memory(store: BaseStore) -> None:
    first = await store.astore(ALICE, "paid the bill", idempotency_key="t1/m1/0")
    assert await store.aupdate(ALICE, first, "paid half the bill")
    assert await store.astore(ALICE, "paid the bill", idempotency_key="t1/m1/0") == first
    other = await store.astore(ALICE, "paid the bill", idempotency_key="t1/m1/1")
    assert other != first
    assert await contents(store, ALICE) == ["paid half the bill", "paid the bill"]


async def test_many_are_stored_at_once_or_none(store: BaseStore) -> None:
    ids = await store.astore_many(
        ALICE, [NewMemory(content=f"fact {n}", category="facts") for n in range(30)]
    )
    assert len(set(ids)) == 30
    assert len(await store.aget_all(ALICE)) == 30
    with pytest.raises(ValueError, match="blank"):
        await store.astore_many(BOB, [NewMemory(content="fine"), NewMemory(content=" ")])
    assert await store.aget_all(BOB) == []
    assert await store.astore_many(BOB, []) == []


@pytest.mark.parametrize("old", ["store", "update", "delete"])
async def test_what_was_promised_before_a_change_does_not_undo_it(
    store: BaseStore, old: str
) -> None:
    memory_id = await store.astore(ALICE, "first", memory_key="n")
    named = {"memory_key": "n"} if old == "store" else {"memory_id": memory_id}
    promise = PendingWrite(action=old, config=ALICE, content="promised", **named)  # type: ignore[arg-type]
    await store.astore(ALICE, "changed since", memory_key="n")
    await carry_out(store, promise)
    (memory,) = await store.aget_all(ALICE)
    assert memory.content == "changed since"
    await carry_out(store, dataclasses.replace(promise, asked_at=datetime.now(UTC).isoformat()))
    contents = [memory.content for memory in await store.aget_all(ALICE)]
    assert contents == ([] if old == "delete" else ["promised"])


async def test_what_was_forgotten_on_its_way_is_removed_and_nothing_newer(store: BaseStore) -> None:
    promise = PendingWrite(action="store", config=ALICE, content="secret", memory_key="n")
    await carry_out(store, promise)
    await take_back(store, promise)
    assert await store.aget_all(ALICE) == []
    await carry_out(store, promise)
    await store.astore(ALICE, "newer", memory_key="n")
    await take_back(store, promise)
    (memory,) = await store.aget_all(ALICE)
    assert memory.content == "newer"
    late = PendingWrite(action="delete", config=ALICE, memory_id=memory.id)
    await take_back(store, late)
    assert len(await store.aget_all(ALICE)) == 1
    update = PendingWrite(action="update", config=ALICE, memory_id=memory.id, content="secret")
    await carry_out(store, update)
    await take_back(store, update)
    assert await store.aget_all(ALICE) == []


async def test_promises_in_the_order_in_which_they_were_given_all_take_effect(
    store: BaseStore,
) -> None:
    promises = [
        PendingWrite(action="store", config=ALICE, content=str(n), memory_key="n") for n in range(3)
    ]
    for promise in promises:
        await carry_out(store, promise)
    (memory,) = await store.aget_all(ALICE)
    assert memory.content == "2"


async def test_an_update_changes_content_and_metadata(store: BaseStore) -> None:
    memory_id = await store.astore(ALICE, "lives in Rome", metadata={"a": 1, "b": 1})
    assert await store.aupdate(ALICE, memory_id, "lives in Oslo", {"b": 2})
    memory = await store.aget(ALICE, memory_id)
    assert memory is not None
    assert (memory.content, memory.metadata) == ("lives in Oslo", {"a": 1, "b": 2})
    assert memory.updated_at > memory.created_at
    assert (await store.asearch(ALICE, "lives in Oslo"))[0].score > 0.99
    assert await store.aupdate(ALICE, memory_id, "lives in Oslo", {"c": 3}, "replace")
    memory = await store.aget(ALICE, memory_id)
    assert memory is not None
    assert memory.metadata == {"c": 3}


async def test_an_id_of_someone_else_is_an_id_of_no_memory(store: BaseStore) -> None:
    memory_id = await store.astore(ALICE, "secret")
    assert await store.aget(BOB, memory_id) is None
    assert not await store.aupdate(BOB, memory_id, "stolen")
    assert not await store.adelete(BOB, memory_id)
    assert await store.asearch(BOB, "secret") == []
    assert await contents(store, ALICE) == ["secret"]


@pytest.mark.parametrize(
    "memory_id",
    [
        "",
        "nope",
        "../x",
        "-5",
        "7",
        "d41d8cd98f00b204e9800998ecf8427e",
        "x" * 500,
        "00000000-0000-4000-8000-000000000000",
    ],
)
async def test_an_id_of_any_form_is_just_not_found(store: BaseStore, memory_id: str) -> None:
    assert await store.aget(ALICE, memory_id) is None
    assert not await store.aupdate(ALICE, memory_id, "x")
    assert not await store.adelete(ALICE, memory_id)


async def test_a_users_memory_is_never_found_by_the_agent_alone(store: BaseStore) -> None:
    both = {"user_id": "alice", "agent_id": "support", "app_id": "shop"}
    memory_id = await store.astore(both, "alice returned her shoes")
    await store.astore({"agent_id": "support"}, "returns are free")
    assert await contents(store, {"agent_id": "support"}) == ["returns are free"]
    assert await store.aget({"agent_id": "support"}, memory_id) is None
    assert [m.content for m in await store.asearch({"agent_id": "support"}, "shoes")] == [
        "returns are free"
    ]
    assert await store.aget({"user_id": "bob", "agent_id": "support"}, memory_id) is None
    assert await store.aforget_memory({"agent_id": "support"}) == 1
    for scope in (both, ALICE, {"user_id": "alice", "agent_id": "support"}):
        assert await contents(store, scope) == ["alice returned her shoes"]


async def test_a_shared_memory_belongs_to_every_scope_it_names(store: BaseStore) -> None:
    memory_id = await store.astore({"agent_id": "support", "app_id": "shop"}, "open from 9 to 5")
    await store.astore({"app_id": "shop"}, "based in Oslo")
    for scope in ({"agent_id": "support"}, {"app_id": "shop"}):
        assert await store.aget(scope, memory_id) is not None
    assert await contents(store, {"app_id": "shop"}) == ["based in Oslo", "open from 9 to 5"]
    assert await contents(store, {"agent_id": "support"}) == ["open from 9 to 5"]
    assert await store.aget({"app_id": "other"}, memory_id) is None
    assert await contents(store, ALICE) == []


@pytest.mark.parametrize("config", [{}, {"user_id": ""}, {"user_id": None}, {"thread_id": "t"}])
async def test_a_config_that_names_no_one_is_refused(
    store: BaseStore, config: dict[str, str]
) -> None:
    await store.astore(ALICE, "keep me")
    for call in (
        store.astore(config, "x"),
        store.asearch(config, "x"),
        store.aget(config, "x"),
        store.aget_all(config),
        store.aupdate(config, "x", "y"),
        store.adelete(config, "x"),
        store.aforget_memory(config),
    ):
        with pytest.raises(ValueError, match="user_id"):
            await call
    assert await contents(store, ALICE) == ["keep me"]


@pytest.mark.parametrize("user_id", ["a\x00b", "x" * 256, True, 1.5, ["alice"], "\ud800"])
async def test_an_id_of_a_user_that_is_no_id_is_refused(store: BaseStore, user_id: object) -> None:
    with pytest.raises(ValueError, match="user_id"):
        await store.astore({"user_id": user_id}, "x")


async def test_a_number_as_user_id_is_its_text(store: BaseStore) -> None:
    memory_id = await store.astore({"user_id": 42}, "x")
    assert await store.aget({"user_id": "42"}, memory_id) is not None


@pytest.mark.parametrize("content", ["", "   ", "\n", None, 7])
async def test_content_that_is_no_text_is_refused(store: BaseStore, content: str) -> None:
    with pytest.raises(ValueError, match="content"):
        await store.astore(ALICE, content)
    assert await store.aget_all(ALICE) == []


@pytest.mark.parametrize(
    ("metadata", "where"),
    [
        ({"a": {"b": [1, object()]}}, r"metadata\['a'\]\['b'\]\[1\]"),
        ({"a": math.nan}, r"metadata\['a'\]"),
        ({"a": 2**70}, r"metadata\['a'\]"),
        ({"a": {1: 2}}, "keys must be text"),
        (["a"], "must be a dict"),
        ({"a": [{"\ud800": 1}]}, r"metadata\['a'\]\[0\]. is not valid Unicode"),
        (ENDLESS, "contains itself"),
    ],
)
async def test_metadata_that_is_no_json_is_refused(
    store: BaseStore, metadata: dict[str, object], where: str
) -> None:
    with pytest.raises(ValueError, match=where):
        await store.astore(ALICE, "x", metadata=metadata)
    assert await store.aget_all(ALICE) == []


async def test_half_a_surrogate_pair_is_replaced(store: BaseStore) -> None:
    memory_id = await store.astore(
        ALICE, "half \ud83d", metadata={"a": ["\udc00", {"b": "\ud800"}]}
    )
    kept = await store.aget(ALICE, memory_id)
    assert kept is not None
    assert (kept.content, kept.metadata) == ("half \ufffd", {"a": ["\ufffd", {"b": "\ufffd"}]})
    assert [one.id for one in await store.asearch(ALICE, "half \ud83d")] == [memory_id]
    assert await store.aupdate(ALICE, memory_id, "other half \ude00")
    kept = await store.aget(ALICE, memory_id)
    assert kept is not None
    assert kept.content == "other half \ufffd"


@pytest.mark.parametrize("limit", [0, -1, 10**9, True, "5", None])
async def test_a_limit_that_is_none_is_refused(store: BaseStore, limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        await store.asearch(ALICE, "x", limit=limit)
    with pytest.raises(ValueError, match="limit"):
        await store.aget_all(ALICE, limit=limit)


async def test_other_questions_that_make_no_sense_are_refused(store: BaseStore) -> None:
    for threshold in (1.01, -0.1, math.nan, "high"):
        with pytest.raises(ValueError, match="score_threshold"):
            await store.asearch(ALICE, "x", score_threshold=threshold)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="query"):
        await store.asearch(ALICE, " ")
    with pytest.raises(ValueError, match="unknown_field"):
        await store.asearch(ALICE, "x", filters={"unknown_field": 1})
    with pytest.raises(ValueError, match="user_id"):
        await store.asearch(ALICE, "x", filters={"user_id": "bob"})
    with pytest.raises(ValueError, match="filters"):
        await store.asearch(ALICE, "x", filters=["memory_type"])  # type: ignore[arg-type]
    for memories in (["text"], None, [None]):
        with pytest.raises(ValueError, match="NewMemory"):
            await store.astore_many(ALICE, memories)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="idempotency_key"):
        await store.astore(ALICE, "x", idempotency_key=object())  # type: ignore[arg-type]
    for cursor in ("nowhere", "", 5):
        with pytest.raises(ValueError, match="cursor"):
            await store.aget_all(ALICE, cursor=cursor)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="write_mode"):
        await store.aupdate(ALICE, "x", "y", write_mode="append")  # type: ignore[arg-type]


async def test_a_search_looks_at_everything_unless_it_is_filtered(store: BaseStore) -> None:
    await store.astore({**ALICE, "thread_id": "t1"}, "tea in the morning", "semantic", "drinks")
    await store.astore({**ALICE, "thread_id": "t2"}, "tea with Bob", "episodic", "events")
    await store.astore(ALICE, "tea needs hot water", "procedural", memory_key="tea")

    async def found(**filters: object) -> list[str]:
        return sorted(m.content for m in await store.asearch(ALICE, "tea", **filters))  # type: ignore[arg-type]

    assert len(await found()) == 3
    assert await found(memory_type="semantic") == ["tea in the morning"]
    assert await found(category="events") == ["tea with Bob"]
    assert await found(memory_type="semantic", category="events") == []
    assert await found(filters={"thread_id": ["t1", "t2"]}) == [
        "tea in the morning",
        "tea with Bob",
    ]
    assert await found(filters={"memory_key": "tea"}) == ["tea needs hot water"]


async def test_a_type_is_found_however_it_is_written(store: BaseStore) -> None:
    await store.astore(ALICE, "x", memory_type="Semantic")
    assert len(await store.asearch(ALICE, "x", memory_type="SEMANTIC")) == 1


async def test_an_unknown_type_is_episodic(store: BaseStore) -> None:
    memory_id = await store.astore(ALICE, "x", memory_type="gossip")
    memory = await store.aget(ALICE, memory_id)
    assert memory is not None
    assert memory.memory_type == "episodic"


async def test_pages_show_every_memory_once_even_while_some_are_deleted(store: BaseStore) -> None:
    ids = await store.astore_many(ALICE, [NewMemory(content=f"fact {n}") for n in range(25)])
    await store.astore(BOB, "other")
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.aget_all(ALICE, limit=7, cursor=cursor)
        seen += [memory.id for memory in page]
        await store.adelete(ALICE, page[0].id)
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(seen) == sorted(ids)


async def test_forgetting_deletes_one_users_memories_and_counts_them(store: BaseStore) -> None:
    await store.astore_many(ALICE, [NewMemory(content=f"fact {n}") for n in range(12)])
    await store.astore(BOB, "other")
    assert await store.aforget_memory(ALICE) == 12
    assert await store.aforget_memory(ALICE) == 0
    assert await contents(store, ALICE) == []
    assert await contents(store, BOB) == ["other"]


async def test_every_method_has_a_twin_that_waits(store: BaseStore) -> None:
    memory_id = store.store(ALICE, "likes tea", memory_key="drink")
    assert store.search(ALICE, "tea")[0].id == memory_id
    assert store.update(ALICE, memory_id, "likes coffee")
    memory = store.get(ALICE, memory_id)
    assert memory is not None
    assert memory.content == "likes coffee"
    assert store.flush() == 0
    assert store.forget_memory(ALICE) == 1


async def test_a_closed_store_opens_again_by_itself(store: BaseStore) -> None:
    memory_id = await store.astore(ALICE, "likes tea")
    await store.aclose()
    assert await store.aget(ALICE, memory_id) is not None


def test_a_local_store_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    store: QdrantStore = create_local_qdrant_store(tmp_path, HashEmbedding())
    memory_id = asyncio.run(store.astore(ALICE, "likes tea"))
    assert asyncio.run(store.aget(ALICE, memory_id)) is not None
    store.close()
