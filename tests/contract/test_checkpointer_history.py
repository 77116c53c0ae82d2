"""The kept versions of a thread: bounded, listed without being read, each exactly as it was."""

import pytest
from backends import Backend, Checkpointer
from threads import config, grown, message, state, texts

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import ThreadInfo


async def versions(checkpointer: Checkpointer, **how: int) -> list[int]:
    return [one.version for one in await checkpointer.alist_states(config(), **how)]


async def grow(checkpointer: Checkpointer, count: int) -> None:
    mine = config()
    for i in range(count):
        read = await checkpointer.aget_state(mine)
        await checkpointer.aput_state(mine, grown(read, str(i)))


async def test_the_last_20_versions_are_kept(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 30)
    assert await versions(checkpointer) == list(range(30, 10, -1))
    assert await checkpointer.aget_state(config(), version=10) is None
    oldest = await checkpointer.aget_state(config(), version=11)
    assert texts(oldest) == [str(i) for i in range(11)]


async def test_the_limit_is_an_option(backend: Backend) -> None:
    for limit in (1, 3, 25):
        checkpointer = backend.make(state_history_limit=limit)
        await checkpointer.aclean_thread(config())
        await grow(checkpointer, 27)
        assert len(await versions(checkpointer)) == limit
        assert len(texts(await checkpointer.aget_state(config()))) == 27


async def test_a_lower_limit_holds_from_the_next_write_on(backend: Backend) -> None:
    await grow(backend.make(), 10)
    frugal = backend.make(state_history_limit=2)
    assert len(await versions(frugal)) == 10
    await grow(frugal, 1)
    assert await versions(frugal) == [11, 10]


async def test_a_stale_write_prunes_nothing(backend: Backend) -> None:
    await grow(backend.make(), 5)
    frugal = backend.make(state_history_limit=1)
    with pytest.raises(Exception, match="expected version 1, found version 5"):
        await frugal.aput_state(config(_checkpoint_version=1), state())
    assert len(await versions(frugal)) == 5


async def test_writes_beside_the_state_prune_nothing(backend: Backend) -> None:
    await grow(backend.make(), 5)
    frugal = backend.make(state_history_limit=1)
    await frugal.aput_messages(config(), [message("note")])
    await frugal.aput_thread(config(), ThreadInfo(thread_id="t", thread_name="x"))
    assert len(await versions(frugal)) == 5


async def test_every_kept_version_is_exactly_as_it_was(checkpointer: Checkpointer) -> None:
    mine = config()
    contexts: list[list[str]] = []
    for i in range(15):
        read = await checkpointer.aget_state(mine) or AgentState()
        read.context = [*read.context[i % 3 :], message(f"m{i}")]
        read.context_summary = f"after {i}"
        await checkpointer.aput_state(mine, read)
        contexts.append(texts(read))
    for version, context in enumerate(contexts, start=1):
        old = await checkpointer.aget_state(config(), version=version)
        assert texts(old) == context
        assert old is not None
        assert old.context_summary == f"after {version - 1}"


async def test_snapshots_say_when_and_why(checkpointer: Checkpointer) -> None:
    why = {"node": "agent", "error": "e" * 100_000, "nul": "\x00", "big": 2**70, "nan": None}
    await checkpointer.aput_checkpoint(config(), state("a"), metadata=why)
    await checkpointer.aput_state(config(), state("b"))
    newer, older = await checkpointer.alist_states(config())
    assert (newer.version, older.version) == (2, 1)
    assert newer.created_at >= older.created_at
    assert older.created_at.tzinfo is not None
    assert older.meta == why
    assert newer.meta == {}


async def test_listing_versions_page_by_page(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 6)
    assert await versions(checkpointer, limit=2) == [6, 5]
    assert await versions(checkpointer, limit=2, before=5) == [4, 3]
    assert await versions(checkpointer, before=1) == []
    assert await versions(checkpointer, before=0) == []
    assert await versions(checkpointer, limit=0) == []
    assert await versions(checkpointer, limit=99, before=3) == [2, 1]


async def test_a_version_that_never_was_is_none(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 2)
    for version in (0, 3, 2**63 - 1):
        assert await checkpointer.aget_state(config(), version=version) is None


async def test_an_old_version_can_be_made_the_newest(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 4)
    mine = config()
    await checkpointer.aget_state(mine)
    old = await checkpointer.aget_state(mine, version=2)
    assert old is not None
    old.context.append(message("another way"))
    await checkpointer.aput_state(mine, old)
    assert texts(await checkpointer.aget_state(config())) == ["0", "1", "another way"]
    assert texts(await checkpointer.aget_state(config(), version=4)) == ["0", "1", "2", "3"]


async def test_versions_go_on_behind_a_cleared_state(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 3)
    await checkpointer.aclear_state(config())
    await checkpointer.aput_state(config(), state("again"))
    [only] = await checkpointer.alist_states(config())
    assert only.version > 3
    assert await checkpointer.aget_state(config(), version=3) is None
