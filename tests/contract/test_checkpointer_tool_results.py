"""The ledger of tool calls: what was started, and what became of it."""

import asyncio
from datetime import UTC, date, datetime
from typing import Any

import pytest
from backends import Checkpointer
from pydantic import ValidationError
from threads import config, state

from tenxgraph.core.exceptions import SerializationError, StaleStateError
from tenxgraph.storage.checkpointer import ToolExecution


def call(position: int = 0, message_id: str = "m", **fields: Any) -> ToolExecution:
    return ToolExecution(
        **{
            "message_id": message_id,
            "position": position,
            "tool_name": "book",
            "status": "started",
            **fields,
        }
    )


@pytest.fixture
async def thread(checkpointer: Checkpointer) -> Checkpointer:
    await checkpointer.aput_state(config(), state("hi"))
    return checkpointer


async def test_a_tool_call_that_is_not_known_is_none(thread: Checkpointer) -> None:
    assert await thread.aget_tool_result(config(), "m", 0) is None
    assert await thread.alist_tool_results(config()) == []
    assert await thread.alist_tool_results(config("nowhere")) == []


async def test_a_call_is_recorded_and_then_its_result(thread: Checkpointer) -> None:
    started = call(tool_call_id="c1", args_digest="abc")
    await thread.aput_tool_result(config(), started)
    assert await thread.aget_tool_result(config(), "m", 0) == started
    finished = call(
        tool_call_id="c1",
        args_digest="abc",
        status="finished",
        result={"when": date(2024, 1, 2), "n": 2**70, "nul": "\x00", "nothing": None},
    )
    await thread.aput_tool_result(config(), finished)
    read = await thread.aget_tool_result(config(), "m", 0)
    assert read is not None
    assert (read.status, read.result) == ("finished", finished.result)
    assert read.created_at == started.created_at
    assert read.updated_at == finished.updated_at
    assert await thread.alist_tool_results(config()) == [read]


async def test_a_result_may_be_nothing_at_all(thread: Checkpointer) -> None:
    nothing: list[Any] = [None, "", 0, False, [], {}, float("inf")]
    for position, result in enumerate(nothing):
        await thread.aput_tool_result(config(), call(position, status="finished", result=result))
        read = await thread.aget_tool_result(config(), "m", position)
        assert read is not None
        assert read.result == result
        assert type(read.result) is type(result)


async def test_calls_with_the_same_or_no_id_are_told_apart(thread: Checkpointer) -> None:
    calls = [
        call(0, tool_call_id="call_0", result=1),
        call(1, tool_call_id="call_0", result=2),
        call(0, "m2", tool_call_id="call_0", result=3),
        call(0, "m3", tool_call_id="", result=4),
        call(1, "m3", tool_call_id=None, result=5),
    ]
    for one in calls:
        await thread.aput_tool_result(config(), one)
    assert await thread.alist_tool_results(config()) == calls


async def test_the_same_call_in_another_thread_is_another_call(thread: Checkpointer) -> None:
    await thread.aput_state(config("other"), state("hi"))
    await thread.aput_tool_result(config(), call(result="mine"))
    assert await thread.aget_tool_result(config("other"), "m", 0) is None


async def test_calls_can_be_listed_by_status(thread: Checkpointer) -> None:
    statuses = ("started", "scheduled", "finished", "failed", "scheduled")
    for position, status in enumerate(statuses):
        await thread.aput_tool_result(config(), call(position, status=status))
    scheduled = await thread.alist_tool_results(config(), status="scheduled")
    assert [one.position for one in scheduled] == [1, 4]
    assert len(await thread.alist_tool_results(config())) == 5
    assert await thread.alist_tool_results(config(), status="unheard of") == []


async def test_calls_are_listed_as_first_recorded_whatever_became_of_them(
    thread: Checkpointer,
) -> None:
    for position in (2, 0, 1):
        await thread.aput_tool_result(config(), call(position))
    await thread.aput_tool_result(config(), call(2, status="finished"))
    assert [one.position for one in await thread.alist_tool_results(config())] == [2, 0, 1]


async def test_names_of_any_length_and_characters(thread: Checkpointer) -> None:
    odd = call(tool_name="tool_" * 2_000, tool_call_id="\x00\ue000" * 500, args_digest="d" * 999)
    await thread.aput_tool_result(config(), odd)
    assert await thread.aget_tool_result(config(), "m", 0) == odd


async def test_a_moment_in_any_zone_is_that_moment(thread: Checkpointer) -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    await thread.aput_tool_result(config(), call(created_at=moment, updated_at=moment))
    read = await thread.aget_tool_result(config(), "m", 0)
    assert read is not None
    assert read.created_at == moment


async def test_recording_does_not_touch_the_version(thread: Checkpointer) -> None:
    mine = config()
    await thread.aget_state(mine)
    await thread.aput_tool_result(mine, call())
    await thread.aput_state(mine, state("hi", "there"))
    assert len(await thread.alist_tool_results(config())) == 1


async def test_the_ledger_is_not_pruned_with_the_states(thread: Checkpointer) -> None:
    await thread.aput_tool_result(config(), call(status="finished"))
    for _ in range(25):
        await thread.aput_state(config(), state("hi"))
    assert len(await thread.alist_tool_results(config())) == 1


async def test_a_call_on_a_thread_that_is_not_there_is_refused(checkpointer: Checkpointer) -> None:
    with pytest.raises(StaleStateError, match="the thread is gone"):
        await checkpointer.aput_tool_result(config("nowhere"), call())
    assert await checkpointer.aget_thread(config("nowhere")) is None


async def test_a_result_that_cannot_be_stored_is_refused(thread: Checkpointer) -> None:
    with pytest.raises(SerializationError, match=r"result\['f'\]"):
        await thread.aput_tool_result(config(), call(result={"f": lambda: 1}))
    assert await thread.aget_tool_result(config(), "m", 0) is None


async def test_parallel_calls_are_all_recorded(thread: Checkpointer) -> None:
    await asyncio.gather(*(thread.aput_tool_result(config(), call(i)) for i in range(20)))
    assert len(await thread.alist_tool_results(config())) == 20


def test_what_could_not_be_stored_everywhere_is_no_tool_execution() -> None:
    for bad in (
        {"position": -1},
        {"position": 2**63},
        {"message_id": ""},
        {"message_id": "m" * 256},
        {"status": "lost"},
        {"created_at": datetime(2024, 1, 1)},
    ):
        with pytest.raises(ValidationError):
            call(**bad)
