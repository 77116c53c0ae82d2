"""Every write makes a version; one that builds on an old one is refused whole."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
from backends import Backend, Checkpointer
from threads import config, grown, message, present, state, texts

from tenxgraph.core.exceptions import StaleStateError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import ThreadInfo, ToolExecution


async def outcomes(calls: Sequence[Awaitable[Any]]) -> tuple[int, int]:
    """How many succeeded, and how many were stale; anything else is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, StaleStateError):
            raise result
    stale = sum(isinstance(result, StaleStateError) for result in results)
    return len(results) - stale, stale


async def listed(checkpointer: Checkpointer, thread_id: str = "t") -> list[str]:
    return [one.text() for one in await checkpointer.alist_messages(config(thread_id))]


async def test_every_write_makes_the_next_version(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a"))
    assert mine["_checkpoint_version"] == 1
    await checkpointer.aput_checkpoint(mine, state("a"))
    assert mine["_checkpoint_version"] == 2
    assert [one.version for one in await checkpointer.alist_states(config())] == [2, 1]


async def test_reading_records_the_version(checkpointer: Checkpointer) -> None:
    for text in "ab":
        await checkpointer.aput_state(config(), state(text))
    reader = config()
    await checkpointer.aget_state(reader)
    assert reader["_checkpoint_version"] == 2


async def test_reading_a_thread_without_a_state_records_version_0(
    checkpointer: Checkpointer,
) -> None:
    nowhere, with_messages = config("nowhere"), config()
    await checkpointer.aput_messages(config(), [message("hi")])
    for mine in (nowhere, with_messages):
        await checkpointer.aget_state(mine)
        assert mine["_checkpoint_version"] == 0
        await checkpointer.aput_state(mine, state("a"))
        assert mine["_checkpoint_version"] == 1


async def test_reading_an_old_version_does_not_change_what_a_write_builds_on(
    checkpointer: Checkpointer,
) -> None:
    mine = config()
    for text in "ab":
        await checkpointer.aput_state(mine, state(text))
    old = await checkpointer.aget_state(mine, version=1)
    assert mine["_checkpoint_version"] == 2
    await checkpointer.aput_state(mine, old)
    assert texts(await checkpointer.aget_state(config())) == ["a"]


async def test_three_runs_from_a_fresh_thread_only_one_commits(
    checkpointer: Checkpointer,
) -> None:
    a, b, c = config(), config(), config()
    for run in (a, b, c):
        assert await checkpointer.aget_state(run) is None
    await checkpointer.aput_state(a, state("a"))
    for run, text in ((b, "b"), (c, "c")):
        with pytest.raises(StaleStateError, match="expected version 0, found version 1") as stale:
            await checkpointer.aput_state(run, state(text))
        assert stale.value.expected_version == 0
        assert stale.value.current_version == 1
    assert texts(await checkpointer.aget_state(config())) == ["a"]


async def test_a_loser_that_reads_again_can_write(checkpointer: Checkpointer) -> None:
    winner, loser = config(), config()
    await checkpointer.aget_state(loser)
    await checkpointer.aput_state(winner, state("a"))
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(loser, state("b"))
    await checkpointer.aput_state(loser, grown(await checkpointer.aget_state(loser), "b"))
    assert texts(await checkpointer.aget_state(config())) == ["a", "b"]


async def test_a_stale_write_leaves_nothing_behind(checkpointer: Checkpointer) -> None:
    loser = config()
    await checkpointer.aput_state(loser, state("a"))
    await checkpointer.aput_state(config(), state("a", "b"))
    before = await checkpointer.aget_thread(config())
    with pytest.raises(StaleStateError):
        await checkpointer.aput_checkpoint(loser, state("a", "lost"), [message("also lost")])
    assert texts(await checkpointer.aget_state(config())) == ["a", "b"]
    assert await listed(checkpointer) == ["a", "b"]
    assert len(await checkpointer.alist_states(config())) == 2
    assert await checkpointer.aget_thread(config()) == before


async def test_a_stale_write_does_not_lose_its_messages_for_the_retry(
    checkpointer: Checkpointer,
) -> None:
    loser = config()
    await checkpointer.aget_state(loser)
    await checkpointer.aput_state(config(), state("a"))
    mine = message("mine")
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(loser, AgentState(context=[mine]))
    read = present(await checkpointer.aget_state(loser))
    read.context.append(mine)
    await checkpointer.aput_state(loser, read)
    assert texts(await checkpointer.aget_state(config())) == ["a", "mine"]
    assert await listed(checkpointer) == ["a", "mine"]


async def test_without_a_recorded_version_a_write_appends(checkpointer: Checkpointer) -> None:
    for text in "abc":
        await checkpointer.aput_state(config(), state(text))
    assert [one.version for one in await checkpointer.alist_states(config())] == [3, 2, 1]


async def test_fifty_writers_from_one_version_one_wins(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("start"))
    writers = [
        checkpointer.aput_state(dict(mine), state("start", f"writer {i}")) for i in range(50)
    ]
    assert await outcomes(writers) == (1, 49)
    read = texts(await checkpointer.aget_state(config()))
    assert len(read) == 2
    assert await listed(checkpointer) == read
    assert len(await checkpointer.alist_states(config())) == 2


async def test_writers_on_a_fresh_thread_one_wins_the_others_are_stale(
    checkpointer: Checkpointer,
) -> None:
    writers = [
        checkpointer.aput_state(config(_checkpoint_version=0), state(str(i))) for i in range(10)
    ]
    assert await outcomes(writers) == (1, 9)
    assert len(await listed(checkpointer)) == 1


async def test_two_checkpointers_race_as_one_does(backend: Backend) -> None:
    one, other = backend.make(), backend.make()
    mine = config()
    await one.aput_state(mine, state("start"))
    writers = [
        (one if i % 2 else other).aput_state(dict(mine), state(f"writer {i}")) for i in range(20)
    ]
    assert await outcomes(writers) == (1, 19)


async def test_writers_that_append_all_succeed(checkpointer: Checkpointer) -> None:
    writers = [checkpointer.aput_state(config(), state(str(i))) for i in range(20)]
    assert await outcomes(writers) == (20, 0)
    newest = (await checkpointer.alist_states(config()))[0]
    assert newest.version == 20
    assert sorted(await listed(checkpointer)) == sorted(map(str, range(20)))


async def test_one_run_never_conflicts_with_itself(checkpointer: Checkpointer) -> None:
    mine = config()
    for i in range(60):
        await checkpointer.aput_state(mine, state(str(i)))
    assert mine["_checkpoint_version"] == 60


async def test_side_writes_do_not_make_a_run_stale(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a"))
    await checkpointer.aput_thread(config(), ThreadInfo(thread_id="t", thread_name="renamed"))
    await checkpointer.aput_messages(config(), [message("note")])
    await checkpointer.adelete_message(config(), "note")
    await checkpointer.aput_tool_result(
        config(), ToolExecution(message_id="m", position=0, tool_name="f", status="started")
    )
    await checkpointer.arequest_stop(config())
    await checkpointer.aput_state(mine, state("a", "b"))
    assert mine["_checkpoint_version"] == 2


async def test_side_writes_do_not_change_the_version_in_the_config(
    checkpointer: Checkpointer,
) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a"))
    await checkpointer.aput_messages(mine, [message("note")])
    await checkpointer.aput_thread(mine, ThreadInfo(thread_id="t", thread_name="renamed"))
    assert mine["_checkpoint_version"] == 1


async def test_a_write_to_a_deleted_thread_is_stale(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a"))
    await checkpointer.aclean_thread(config())
    with pytest.raises(StaleStateError, match="the thread is gone") as stale:
        await checkpointer.aput_state(mine, state("a", "b"))
    assert stale.value.current_version is None
    assert await checkpointer.aget_thread(config()) is None


async def test_messages_and_tool_results_do_not_bring_a_deleted_thread_back(
    checkpointer: Checkpointer,
) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a"))
    await checkpointer.aclean_thread(config())
    execution = ToolExecution(message_id="m", position=0, tool_name="f", status="finished")
    with pytest.raises(StaleStateError):
        await checkpointer.aput_messages(mine, [message("late")])
    with pytest.raises(StaleStateError):
        await checkpointer.aput_tool_result(mine, execution)
    assert await checkpointer.aget_thread(config()) is None
    assert await listed(checkpointer) == []


async def test_a_thread_made_anew_at_the_same_version_is_another_thread(
    checkpointer: Checkpointer,
) -> None:
    before = config()
    await checkpointer.aput_state(before, state("old"))
    await checkpointer.aclean_thread(config())
    await checkpointer.aput_state(config(), state("new"))
    assert (await checkpointer.alist_states(config()))[0].version == before["_checkpoint_version"]
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(before, state("old", "late"))
    assert texts(await checkpointer.aget_state(config())) == ["new"]


async def test_a_thread_deleted_before_it_had_a_state_is_stale_for_who_read_it(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.aput_messages(config(), [message("hi")])
    reader = config()
    await checkpointer.aget_state(reader)
    await checkpointer.aclean_thread(config())
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(reader, state("late"))
    assert await checkpointer.aget_thread(config()) is None


async def test_a_state_from_a_deleted_thread_starts_a_new_one_whole(
    checkpointer: Checkpointer,
) -> None:
    kept = await checkpointer.aput_state(config(), state("a", "b"))
    await checkpointer.aclean_thread(config())
    await checkpointer.aput_state(config(), kept)
    assert texts(await checkpointer.aget_state(config())) == ["a", "b"]
    assert await listed(checkpointer) == ["a", "b"]


async def test_clearing_the_state_makes_every_recorded_version_stale(
    checkpointer: Checkpointer,
) -> None:
    before = config()
    await checkpointer.aput_state(before, state("a"))
    await checkpointer.aclear_state(config())
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(before, state("a", "b"))
    await checkpointer.aput_state(config(), state("c"))
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(before, state("a", "b"))
    assert texts(await checkpointer.aget_state(config())) == ["c"]


async def test_who_reads_a_cleared_thread_can_write_to_it(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("a"))
    await checkpointer.aclear_state(config())
    reader, late = config(), config()
    for run in (reader, late):
        assert await checkpointer.aget_state(run) is None
    await checkpointer.aput_state(reader, state("b"))
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(late, state("c"))
    assert texts(await checkpointer.aget_state(config())) == ["b"]


async def test_a_write_records_whether_a_stop_was_requested(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a"))
    assert mine["_stop_requested"] is False
    await checkpointer.arequest_stop(config())
    await checkpointer.aput_state(mine, state("a", "b"))
    assert mine["_stop_requested"] is True


async def test_the_callers_own_keys_in_the_config_stay(checkpointer: Checkpointer) -> None:
    mine = config(run_id="r", nested={"a": [1]})
    await checkpointer.aget_state(mine)
    await checkpointer.aput_state(mine, state("a"))
    own = {key: value for key, value in mine.items() if not key.startswith("_")}
    assert own == {"thread_id": "t", "user_id": "u", "run_id": "r", "nested": {"a": [1]}}


async def test_a_config_copied_to_another_thread_remembers_nothing_of_the_first(
    checkpointer: Checkpointer,
) -> None:
    one = config("one")
    await checkpointer.aput_state(one, state("a"))
    other = {**one, "thread_id": "other"}
    await checkpointer.aput_messages(other, [message("b")])
    await checkpointer.aput_state(other, state("c"))
    assert other["_checkpoint_version"] == 1
    assert texts(await checkpointer.aget_state(config("other"))) == ["c"]
