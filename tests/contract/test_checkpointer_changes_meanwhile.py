"""What a caller changes while a call is on its way is not in what the call stores."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from backends import Backend, Checkpointer
from pydantic import Field
from threads import config, message, present, texts

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import ThreadInfo, ToolExecution


class Notes(AgentState):
    notes: dict[str, list[int]] = Field(default_factory=dict)


def notes() -> Notes:
    return Notes(context=[message("a")], notes={"n": [1]})


def change(state: Notes, *more: Any) -> None:
    """Everything about a state and what is written with it."""
    state.context[:] = [message("late")]
    state.notes["n"].append(2)
    state.context_summary = "late"
    for one in more:
        one.clear()


async def begun(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """The call as a task that has come as far as its first wait."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("has_read", [False, True])
@pytest.mark.parametrize("call", ["aput_state", "aput_checkpoint"])
async def test_a_state_that_is_changed_meanwhile(
    call: str, has_read: bool, backend: Backend
) -> None:
    kept = backend.make()
    mine = config(thread_meta={"tags": [1]}, thread_name="first")
    if has_read:
        await kept.aget_state(mine)
    state, beside, why = notes(), [message("beside")], {"why": ["a test"]}
    arguments = (beside, why) if call == "aput_checkpoint" else ()
    task = await begun(getattr(kept, call)(mine, state, *arguments))
    change(state, beside, why, mine["thread_meta"])
    mine["thread_name"] = "late"
    await task
    kept.bind_state_type(Notes)
    read = present(await kept.aget_state(config()))
    assert (texts(read), read.notes, read.context_summary) == (["a"], {"n": [1]}, None)
    thread = present(await kept.aget_thread(config()))
    assert (thread.thread_name, thread.metadata) == ("first", {"tags": [1]})
    if call == "aput_checkpoint":
        assert await kept.aget_message(config(), "beside") is not None
        assert (await kept.alist_states(config()))[0].meta == {"why": ["a test"]}


async def test_a_message_that_came_meanwhile_is_stored_by_the_next_write(backend: Backend) -> None:
    kept = backend.make()
    mine, state = config(), notes()
    task = await begun(kept.aput_state(mine, state))
    state.context.append(message("meanwhile"))
    await task
    await kept.aput_state(mine, state)
    assert texts(await kept.aget_state(config())) == ["a", "meanwhile"]


async def test_a_state_of_a_deleted_thread_that_is_changed_meanwhile(backend: Backend) -> None:
    kept = backend.make()
    state = notes()
    await kept.aput_state(config(), state)
    await kept.aclean_thread(config())
    fresh = config()
    task = await begun(kept.aput_state(fresh, state))
    change(state)
    await task
    assert texts(await kept.aget_state(config())) == ["a"]


async def test_a_cached_state_that_is_changed_meanwhile(backend: Backend) -> None:
    kept = backend.make()
    mine, state = config(), notes()
    await kept.aput_checkpoint(mine, state)
    task = await begun(kept.aput_state_cache(mine, state))
    change(state)
    await task
    assert texts(await kept.aget_state(config())) == ["a"]


async def test_messages_that_are_changed_meanwhile(checkpointer: Checkpointer) -> None:
    messages: list[Message] = [message("a"), message("b")]
    more: dict[str, Any] = {"from": ["web"]}
    task = await begun(checkpointer.aput_messages(config(), messages, more))
    messages.clear()
    more["from"].append("late")
    await task
    stored = await checkpointer.alist_messages(config())
    assert [one.text() for one in stored] == ["a", "b"]
    assert stored[0].metadata == {"from": ["web"]}


async def test_a_thread_record_that_is_changed_meanwhile(checkpointer: Checkpointer) -> None:
    info = ThreadInfo(thread_id="t", thread_name="first", metadata={"tags": [1]})
    task = await begun(checkpointer.aput_thread(config(), info))
    info.thread_name = "late"
    present(info.metadata)["tags"].append(2)
    await task
    thread = present(await checkpointer.aget_thread(config()))
    assert (thread.thread_name, thread.metadata) == ("first", {"tags": [1]})


async def test_a_tool_result_that_is_changed_meanwhile(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), notes())
    result = {"rows": [1]}
    execution = ToolExecution(
        message_id="a", position=0, tool_name="f", status="finished", result=result
    )
    task = await begun(checkpointer.aput_tool_result(config(), execution))
    result["rows"].append(2)
    execution.tool_name, execution.status = "late", "failed"
    await task
    known = present(await checkpointer.aget_tool_result(config(), "a", 0))
    assert (known.tool_name, known.status, known.result) == ("f", "finished", {"rows": [1]})


async def test_an_import_whose_lines_are_changed_meanwhile(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), notes())
    lines = [line async for line in checkpointer.aexport_thread(config())]
    task = await begun(checkpointer.aimport_thread(config("copy"), lines))
    lines.clear()
    await task
    assert texts(await checkpointer.aget_state(config("copy"))) == ["a"]
