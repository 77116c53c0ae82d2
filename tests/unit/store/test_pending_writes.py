"""Background writes: what "scheduled" promises."""

import asyncio
import gc
import itertools
import json
import logging
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from file_log import FileLog, FileWrite
from servers.process import wait_until

from tenxgraph.core.exceptions import TransientStorageError
from tenxgraph.prebuilt.tools import memory_tool, user_memory_tool
from tenxgraph.storage.store import BaseStore, InMemoryStore, writer_thread
from tenxgraph.storage.store.pending import PendingWrites
from tenxgraph.storage.store.pending_write import PendingWrite
from tenxgraph.testing import HashEmbedding

ALICE = {"user_id": "alice"}
BOB = {"user_id": "bob"}


class Slow(HashEmbedding):
    """Takes its time."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self.delay = delay

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(self.delay)
        return await super().aembed_batch(texts)


class Held(HashEmbedding):
    """Gives no vector before `let_go`, and blocks the loop it runs in meanwhile if `blocking`."""

    def __init__(self, *, blocking: bool = False) -> None:
        super().__init__()
        self.blocking = blocking
        self.inside = 0
        self._free = threading.Event()

    def let_go(self) -> None:
        self._free.set()

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        self.inside += 1
        if self.blocking:
            assert self._free.wait(30)  # what a careless embedder does
        while not self._free.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.01)
        return await super().aembed_batch(texts)


class Failing(HashEmbedding):
    """Fails as often as it is told to."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        super().__init__()
        self.failures = failures
        self.error = error or ConnectionError("the embedder is away")

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        if self.failures > 0:
            self.failures -= 1
            raise self.error
        return await super().aembed_batch(texts)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenxgraph.storage.store.pending._RETRY_DELAYS", (0.01, 0.01, 0.01))


async def tool(store: BaseStore, **arguments: Any) -> Any:
    arguments.setdefault("config", ALICE)
    return json.loads(await memory_tool(store=store, **arguments))


async def contents(store: BaseStore, config: dict[str, str] = ALICE) -> list[str]:
    return sorted(memory.content for memory in await store.aget_all(config))


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_store_call_does_not_wait_and_a_search_sees_what_it_wrote(blocking: bool) -> None:
    embedding = Held(blocking=blocking)
    store = InMemoryStore(embedding)
    for number in range(5):
        reply = await tool(store, action="store", content=f"tea {number}", memory_key="drink")
        assert reply == {"status": "scheduled", "action": "store"}
    embedding.let_go()
    assert [found["content"] for found in await tool(store, query="tea")] == ["tea 4"]


async def test_writes_that_name_a_memory_keep_their_order() -> None:
    store = InMemoryStore(Slow(0.01))
    for value in ("red", "green", "blue"):
        await tool(store, action="store", content=value, memory_key="color")
    assert await contents(store) == ["blue"]
    (memory,) = await store.aget_all(ALICE)
    await tool(store, action="store", content="white", memory_key="color")
    await tool(store, action="delete", memory_id=memory.id)
    assert await contents(store) == []
    await tool(store, action="store", content="black", memory_key="color")
    await tool(store, action="update", memory_id=memory.id, content="grey")
    assert await contents(store) == ["grey"]


async def test_new_memories_of_one_user_are_written_side_by_side() -> None:
    embedding = Held()
    store = InMemoryStore(embedding)
    for number in range(8):
        await tool(store, action="store", content=f"fact {number}")
    await asyncio.to_thread(wait_until, lambda: embedding.inside == 8, "eight writes at once")
    embedding.let_go()
    assert len(await contents(store)) == 8


async def test_a_search_waits_for_its_own_user_only() -> None:
    embedding = Held()
    store = InMemoryStore(embedding)
    await tool(store, action="store", content="slow", config=BOB)
    assert await contents(store, ALICE) == []
    embedding.let_go()
    assert await contents(store, BOB) == ["slow"]


async def test_a_search_of_a_narrower_or_wider_scope_waits_too() -> None:
    store = InMemoryStore(Slow(0.05))
    both = {"user_id": "alice", "agent_id": "support"}
    await store.writes.submit(PendingWrite(action="store", config=both, content="x"))
    assert await contents(store, ALICE) == ["x"]
    await store.writes.submit(PendingWrite(action="store", config=ALICE, content="y"))
    assert await contents(store, ALICE) == ["x", "y"]
    assert await contents(store, both) == ["x"]


async def test_no_write_is_lost_to_the_garbage_collector() -> None:
    store = InMemoryStore(Slow(0.01))
    for number in range(100):
        await tool(store, action="store", content=f"fact {number}")
        gc.collect(0)
    gc.collect()
    assert len(await contents(store)) == 100
    assert (store.writes.stats.scheduled, store.writes.stats.landed) == (100, 100)


def test_writes_outlive_the_event_loop_that_asked_for_them() -> None:
    store = InMemoryStore(Slow(0.2))
    asyncio.run(tool(store, action="store", content="likes tea"))
    assert [memory.content for memory in store.get_all(ALICE)] == ["likes tea"]


def test_writes_outlive_the_last_reference_to_their_store() -> None:
    embedding = Slow(0.1)
    landed = threading.Event()

    class Watched(InMemoryStore):
        async def _aupsert(self, *arguments: Any) -> None:
            await super()._aupsert(*arguments)
            landed.set()

    asyncio.run(tool(Watched(embedding), action="store", content="likes tea"))
    gc.collect()
    assert landed.wait(5)


async def test_a_cancelled_caller_takes_no_write_along() -> None:
    store = InMemoryStore(Slow(0.2))
    await tool(store, action="store", content="likes tea")
    searching = asyncio.create_task(tool(store, query="tea"))
    await asyncio.sleep(0.05)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert await contents(store) == ["likes tea"]


async def test_a_flush_with_a_deadline_says_what_is_left() -> None:
    store = InMemoryStore(Slow(0.3))
    await tool(store, action="store", content="a")
    assert await store.aflush(timeout=0.01) == 1
    assert await store.aflush(BOB) == 0
    assert await store.aflush() == 0
    assert await contents(store) == ["a"]


async def test_closing_lands_what_is_pending() -> None:
    store = InMemoryStore(Slow(0.2))
    async with store:
        await tool(store, action="store", content="likes tea")
    assert store.writes.stats.landed == 1


async def test_forgetting_a_user_waits_so_that_nothing_comes_back() -> None:
    store = InMemoryStore(Slow(0.2))
    await tool(store, action="store", content="likes tea")
    assert await store.aforget_memory(ALICE) == 1
    await asyncio.sleep(0.3)
    assert await contents(store) == []


async def test_more_writes_than_the_limit_wait_for_room() -> None:
    store = InMemoryStore(Slow(0.05))
    store._writes = PendingWrites(store, limit=3)
    most = 0
    for number in range(12):
        await tool(store, action="store", content=f"fact {number}")
        most = max(most, len(store.writes))
    assert most == 3
    assert len(await contents(store)) == 12


@pytest.mark.usefixtures("quick_retries")
async def test_a_failure_that_passes_is_not_noticed(caplog: pytest.LogCaptureFixture) -> None:
    store = InMemoryStore(Failing(3))
    await tool(store, action="store", content="likes tea")
    assert [found["content"] for found in await tool(store, query="tea")] == ["likes tea"]
    assert store.writes.stats.retried == 3
    assert store.writes.stats.failed == 0
    assert caplog.records == []


@pytest.mark.usefixtures("quick_retries")
async def test_a_failure_that_stays_is_logged_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = InMemoryStore(Failing(4))
    await tool(store, action="store", content="my secret is 42", memory_key="z")
    await store.aflush()
    assert store.writes.stats.failed == 1
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "memory_key='z'" in record.getMessage()
    assert "the embedder is away" in record.getMessage()
    assert "secret" not in record.getMessage()

    other = await tool(store, query="secret", config=BOB)
    assert other == []
    told = await tool(store, action="store", content="unrelated", memory_key="y")
    assert "store z" in told["error"]
    assert "not saved" in told["error"]
    assert "not carried out" in told["error"]
    assert await tool(store, query="secret") == []
    await tool(store, action="store", content="my secret is 42", memory_key="z")
    assert await contents(store) == ["my secret is 42"]


async def test_a_write_that_can_never_land_is_not_repeated(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A repeat would come after an hour, and the search would wait for it.
    monkeypatch.setattr("tenxgraph.storage.store.pending._RETRY_DELAYS", (3600, 3600, 3600))
    store = InMemoryStore(HashEmbedding())
    memory_id = await store.astore(BOB, "bob's")
    await tool(store, action="update", memory_id=memory_id, content="stolen")
    told = await asyncio.wait_for(tool(store, query="x"), 30)
    assert "no memory" in told["error"]
    assert await contents(store, BOB) == ["bob's"]
    assert len(caplog.records) == 1
    await tool(store, action="delete", memory_id=memory_id)
    assert await tool(store, query="x") == []
    assert await contents(store, BOB) == ["bob's"]


async def test_what_only_another_configuration_can_help_is_not_repeated(tmp_path: Path) -> None:
    class Shrunk(HashEmbedding):
        async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            return [vector[:-1] for vector in await super().aembed_batch(texts)]

    log = FileLog(tmp_path)
    store = InMemoryStore(Shrunk())
    await tool(store, action="store", content="likes tea", config=log.config(**ALICE))
    await store.aflush()
    assert (store.writes.stats.retried, store.writes.stats.failed) == (0, 1)
    mended = InMemoryStore(HashEmbedding())
    assert log.recover(mended) == 1
    assert await contents(mended) == ["likes tea"]


@pytest.mark.usefixtures("quick_retries")
async def test_a_slow_attempt_is_given_up_and_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(HashEmbedding):
        hanging = 2

        async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            if self.hanging:
                self.hanging -= 1
                await asyncio.sleep(3600)
            return await super().aembed_batch(texts)

    monkeypatch.setattr("tenxgraph.storage.store.pending._ATTEMPT_TIMEOUT", 0.05)
    store = InMemoryStore(Hanging())
    await tool(store, action="store", content="likes tea")
    assert await contents(store) == ["likes tea"]
    assert store.writes.stats.retried == 2


async def test_a_log_that_takes_its_time_changes_neither_the_order_nor_the_bound(
    tmp_path: Path,
) -> None:
    class Uneven(FileLog):
        async def keep(self, write: PendingWrite, store: BaseStore) -> FileWrite:
            await asyncio.sleep(0.05 if write.content == "0" else 0)
            return await super().keep(write, store)

    alice = Uneven(tmp_path).config(**ALICE)
    store = InMemoryStore(HashEmbedding())
    store.writes._limit = 5
    most = 0

    async def put(number: int) -> None:
        nonlocal most
        await tool(store, action="store", content=str(number), memory_key="n", config=alice)
        most = max(most, len(store.writes))

    await asyncio.gather(*(put(number) for number in range(30)))
    assert await contents(store) == ["29"]
    assert most <= 5


async def test_whoever_is_cancelled_while_a_promise_is_kept_leaves_a_whole_one(
    tmp_path: Path,
) -> None:
    class Slowly(FileLog):
        async def keep(self, write: PendingWrite, store: BaseStore) -> FileWrite:
            kept = await super().keep(write, store)
            await asyncio.sleep(0.1)
            return kept

    store = InMemoryStore(HashEmbedding())
    log = Slowly(tmp_path)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(
            tool(store, action="store", content="x", config=log.config(**ALICE)), 0.05
        )
    assert await contents(store) == ["x"]
    assert log.left() == []


async def test_the_end_of_the_process_does_not_wait_for_what_nobody_was_promised() -> None:
    class Hanging(FileLog):
        async def keep(self, write: PendingWrite, store: BaseStore) -> FileWrite:
            await asyncio.sleep(3600)
            raise AssertionError

    store = InMemoryStore(HashEmbedding())
    alice = Hanging(Path()).config(**ALICE)
    asking = asyncio.create_task(
        tool(store, action="store", content="x", memory_key="n", config=alice)
    )
    await asyncio.sleep(0.05)
    await tool(store, action="store", content="y", memory_key="n")
    # In this loop's own thread, as a signal's handler is: the loop cannot go on meanwhile.
    assert writer_thread.flush_all(30) == 0
    assert store.writes.stats.landed == 1
    asking.cancel()


async def test_a_full_queue_lets_in_as_soon_as_any_has_landed() -> None:
    class FirstSlow(HashEmbedding):
        async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            if texts == ["0"]:
                await asyncio.sleep(0.5)
            return await super().aembed_batch(texts)

    store = InMemoryStore(FirstSlow())
    store.writes._limit = 2
    for number in range(5):
        await tool(store, action="store", content=str(number))
    assert "0" in {write.content for write in store.writes.on_their_way().values()}
    assert len(await contents(store)) == 5


async def test_whoever_waits_for_room_does_so_for_nothing_but_room() -> None:
    store = InMemoryStore(Slow(0.002))
    store.writes._limit = 20
    wrapped = 0
    wrap = asyncio.wrap_future

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal wrapped
        wrapped += 1
        return wrap(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenxgraph.storage.store.pending.asyncio.wrap_future", counted)
        writes = [tool(store, action="store", content=str(number)) for number in range(300)]
        asking = [asyncio.ensure_future(write) for write in writes]
        await asyncio.sleep(0.02)
        for one in asking[100:200]:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    await store.aflush()
    assert store.writes.stats.landed >= 200
    assert wrapped < 3000, "each of them once or twice, and not every other one each time"


async def test_a_loop_that_is_closed_while_it_promises_holds_up_nobody() -> None:
    class Hanging(FileLog):
        async def keep(self, write: PendingWrite, store: BaseStore) -> FileWrite:
            await asyncio.sleep(1)
            raise AssertionError

    store = InMemoryStore(HashEmbedding())
    alice = Hanging(Path()).config(**ALICE)

    def give_up() -> None:
        loop = asyncio.new_event_loop()
        call = tool(store, action="store", content="x", memory_key="n", config=alice)
        with pytest.raises(TimeoutError):
            loop.run_until_complete(asyncio.wait_for(call, 0.05))
        loop.close()

    await asyncio.to_thread(give_up)
    assert await asyncio.wait_for(tool(store, query="x"), 5) == []


async def test_a_clock_that_is_set_back_changes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    class SetBack(datetime):
        times = itertools.count(0, -60)

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=next(cls.times))

    monkeypatch.setattr("tenxgraph.storage.store.records.datetime", SetBack)
    store = InMemoryStore(HashEmbedding())
    for content in ("first", "second", "third"):
        await tool(store, action="store", content=content, memory_key="n")
    (memory,) = await store.aget_all(ALICE)
    assert memory.content == "third"
    await tool(store, action="delete", memory_id=memory.id)
    assert await contents(store) == []


@pytest.mark.parametrize("change", ["update", "forget"])
async def test_an_update_whose_embedding_takes_its_time_looks_again(change: str) -> None:
    here, there = InMemoryStore(Slow(0.3)), InMemoryStore(HashEmbedding())
    here._memories = there._memories  # one database, two processes
    memory_id = await there.astore(ALICE, "first", memory_key="n")
    await tool(here, action="update", memory_id=memory_id, content="older")
    await asyncio.sleep(0.1)
    if change == "update":
        await there.aupdate(ALICE, memory_id, "newer")
    else:
        await there.aforget_memory(ALICE)
    await here.aflush()
    assert await contents(there) == (["newer"] if change == "update" else [])


async def test_what_the_log_could_not_keep_leaves_its_place() -> None:
    class Refusing(FileLog):
        async def keep(self, write: PendingWrite, store: BaseStore) -> FileWrite:
            raise TransientStorageError("the ledger is away")

    store = InMemoryStore(HashEmbedding())
    alice = Refusing(Path()).config(**ALICE)
    told = await tool(store, action="store", content="x", memory_key="n", config=alice)
    assert "the ledger is away" in told["error"]
    await tool(store, action="store", content="y", memory_key="n")
    assert await contents(store) == ["y"]


@pytest.mark.parametrize("change", ["store", "update", "delete"])
async def test_a_change_by_hand_comes_after_what_was_promised_before(change: str) -> None:
    store = InMemoryStore(Slow(0.1))
    memory_id = await store.astore(ALICE, "old", memory_key="n")
    await tool(store, action="store", content="promised", memory_key="n")
    if change == "store":
        await store.astore(ALICE, "by hand", memory_key="n")
    elif change == "update":
        await store.aupdate(ALICE, memory_id, "by hand")
    else:
        await store.adelete(ALICE, memory_id)
    assert await contents(store) == ([] if change == "delete" else ["by hand"])


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("rubbish", [ValueError("no JSON"), TypeError("None"), KeyError("data")])
async def test_what_an_embedding_answers_once_is_no_reason_to_give_up(rubbish: Exception) -> None:
    class Rubbish(HashEmbedding):
        answered = False

        async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            if not self.answered:
                self.answered = True
                raise rubbish
            return await super().aembed_batch(texts)

    store = InMemoryStore(Rubbish())
    await tool(store, action="store", content="likes tea")
    assert await contents(store) == ["likes tea"]
    assert store.writes.stats.retried == 1


async def test_calls_of_one_turn_with_one_key_make_one_memory() -> None:
    store = InMemoryStore(Slow(0.01))
    await asyncio.gather(
        *(tool(store, action="store", content=f"value {n}", memory_key="color") for n in range(20))
    )
    assert await contents(store) == ["value 19"]


async def test_a_promise_is_in_the_log_before_it_is_answered_and_gone_when_kept(
    tmp_path: Path,
) -> None:
    log = FileLog(tmp_path)
    store = InMemoryStore(Slow(0.1))
    config = log.config(**ALICE, thread_id="t1")
    await memory_tool(action="store", content="likes tea", config=config, store=store)
    (promised,) = (kept.write for kept in log.left())
    assert (promised.action, promised.content) == ("store", "likes tea")
    assert promised.config == {**ALICE, "thread_id": "t1"}
    await store.aflush()
    assert log.left() == []


async def test_without_a_log_entry_nothing_is_promised(tmp_path: Path) -> None:
    class Full(FileLog):
        async def keep(self, write: PendingWrite, store: BaseStore) -> FileWrite:
            raise TransientStorageError("the ledger is away")

    store = InMemoryStore(HashEmbedding())
    alice = Full(tmp_path).config(**ALICE)
    reply = json.loads(await memory_tool(action="store", content="x", config=alice, store=store))
    assert reply == {"error": "memory unavailable: the ledger is away"}
    assert await contents(store) == []


@pytest.mark.usefixtures("quick_retries")
async def test_a_promise_stays_in_the_log_while_the_store_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = FileLog(tmp_path)
    store = InMemoryStore(Failing(4))
    await user_memory_tool(
        action="remember",
        text="likes tea",
        config=log.config(**ALICE, thread_id="t1"),
        store=store,
        idempotency_key="t1/m1/0",
    )
    await store.aflush()
    assert len(log.left()) == 1
    assert "is not saved yet" in caplog.text
    told = await tool(store, query="tea")
    assert "do not repeat them" in told["error"]
    assert log.recover(store) == 1
    assert await contents(store) == ["likes tea"]
    assert log.left() == []


async def test_a_promise_that_can_never_be_kept_leaves_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = FileLog(tmp_path)
    store = InMemoryStore(HashEmbedding())
    alice = log.config(**ALICE)
    await memory_tool(action="update", memory_id="x", content="y", config=alice, store=store)
    await store.aflush()
    assert log.left() == []
    assert log.refusals == ["MissingMemoryError: There is no memory 'x'."]


async def test_a_recovered_write_that_had_landed_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(_self: FileWrite) -> bool:
        raise OSError("killed just before")

    monkeypatch.setattr(FileWrite, "landed", killed)
    log = FileLog(tmp_path)
    store = InMemoryStore(HashEmbedding())
    for number in range(2):
        await memory_tool(
            action="store",
            content="likes tea",
            config=log.config(**ALICE),
            store=store,
            idempotency_key=f"t1/m1/{number}",
        )
    assert await contents(store) == ["likes tea", "likes tea"]
    assert log.recover(store) == 2
    assert await contents(store) == ["likes tea", "likes tea"]


def test_a_promise_survives_json() -> None:
    write = PendingWrite(
        action="store", config={"user_id": "ü"}, content="x", metadata={"a": [1, None]}
    )
    assert PendingWrite(**json.loads(json.dumps(write.as_json()))) == write
