"""Every async method has a sync twin, for plain code, threads, and inside a running loop."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from backends import Backend, Checkpointer
from threads import config, grown, message, present, state, texts

from tenxgraph.core.exceptions import StaleStateError
from tenxgraph.storage.checkpointer import BaseCheckpointer, ThreadInfo, ToolExecution

PROMISED = {
    "setup", "put_state", "get_state", "clear_state", "put_checkpoint", "put_state_cache",
    "get_state_cache", "put_messages", "get_message", "list_messages", "delete_message",
    "put_thread", "get_thread", "list_threads", "clean_thread", "list_states", "fork_thread",
    "export_thread", "import_thread", "request_stop", "is_stop_requested", "clear_stop_request",
    "get_tool_result", "put_tool_result", "close", "release",
}  # fmt: skip


def use_everything(checkpointer: Checkpointer) -> None:
    """A session of plain code with every twin in it."""
    checkpointer.setup()
    mine = config()
    assert checkpointer.get_state(mine) is None
    checkpointer.put_checkpoint(mine, state("a"), metadata={"node": "agent"})
    written = checkpointer.put_state(mine, grown(checkpointer.get_state(mine), "b"))
    checkpointer.put_state_cache(mine, written)
    assert texts(checkpointer.get_state_cache(config())) in ([], ["a", "b"])
    checkpointer.put_messages(mine, [message("note")])
    assert present(checkpointer.get_message(mine, "note")).text() == "note"
    assert [one.text() for one in checkpointer.list_messages(mine, last=2)] == ["b", "note"]
    assert checkpointer.delete_message(mine, "note") is True
    checkpointer.put_thread(mine, ThreadInfo(thread_id="t", thread_name="trip"))
    assert present(checkpointer.get_thread(mine)).thread_name == "trip"
    assert len(checkpointer.list_threads(mine, search="trip", limit=1)) == 1
    assert [one.version for one in checkpointer.list_states(mine)] == [2, 1]
    execution = ToolExecution(message_id="m", position=0, tool_name="f", status="started")
    checkpointer.put_tool_result(mine, execution)
    assert checkpointer.get_tool_result(mine, "m", 0) == execution
    assert checkpointer.list_tool_results(mine) == [execution]
    assert checkpointer.request_stop(mine) is True
    assert checkpointer.is_stop_requested(mine) is True
    checkpointer.clear_stop_request(mine)
    assert texts(checkpointer.get_state(checkpointer.fork_thread(mine, "fork", 1))) == ["a"]
    lines = list(checkpointer.export_thread(mine))
    assert checkpointer.import_thread(config("copy"), lines).thread_name == "trip"
    checkpointer.clear_state(mine)
    assert checkpointer.clean_thread(mine) is True


def test_every_async_method_has_its_twin() -> None:
    methods = dict(inspect.getmembers(BaseCheckpointer, inspect.isfunction))
    twins = {name for name in methods if f"a{name}" in methods}
    assert twins >= PROMISED
    asynchronous = {
        name
        for name, method in methods.items()
        if name[0] == "a"
        and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method))
    }
    assert {f"a{name}" for name in twins} >= asynchronous


async def test_the_twins_work_inside_a_running_loop(backend: Backend) -> None:
    use_everything(backend.make())


async def test_the_twins_work_in_a_thread(backend: Backend) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(use_everything, backend.make()).result()


async def test_sync_and_async_see_the_same(checkpointer: Checkpointer) -> None:
    checkpointer.put_state(config(), state("a"))
    mine = config()
    await checkpointer.aput_state(mine, grown(await checkpointer.aget_state(mine), "b"))
    assert texts(checkpointer.get_state(config())) == ["a", "b"]
    assert mine["_checkpoint_version"] == 2


async def test_the_twins_raise_what_the_methods_raise(checkpointer: Checkpointer) -> None:
    checkpointer.put_state(config(), state("a"))
    with pytest.raises(StaleStateError):
        checkpointer.put_state(config(_checkpoint_version=0), state("b"))
    with pytest.raises(ValueError, match="thread_id"):
        checkpointer.get_state({"user_id": "u"})


async def test_many_threads_at_once(backend: Backend) -> None:
    checkpointer = backend.make()

    def converse(number: int) -> list[str]:
        mine: dict[str, Any] = config(f"t{number}")
        for text in "abc":
            checkpointer.put_state(mine, grown(checkpointer.get_state(mine), text))
        return texts(checkpointer.get_state(mine))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(converse, range(16))) == [["a", "b", "c"]] * 16


async def test_an_export_that_is_broken_off_leaves_nothing_open(
    checkpointer: Checkpointer,
) -> None:
    checkpointer.put_state(config(), state("a", "b"))
    lines = checkpointer.export_thread(config())
    assert '"kind":"thread"' in next(lines)
    lines.close()
    checkpointer.put_state(config(), state("c"))


async def test_a_checkpointer_can_be_used_in_a_with_block_and_again(backend: Backend) -> None:
    async with backend.make() as checkpointer:
        await checkpointer.asetup()
        await checkpointer.aput_state(config(), state("a"))
    if backend.name.startswith("sqlite-memory"):
        return  # what is in memory ends with its connection
    assert texts(await checkpointer.aget_state(config())) == ["a"]
    await checkpointer.arelease()
    await checkpointer.aclose()


def test_with_closes_and_a_closed_one_opens_again(backend: Backend) -> None:
    with backend.make() as checkpointer:
        checkpointer.put_state(config(), state("a"))
    if "sqlite-memory" not in backend.name:  # which is gone with its one connection
        assert texts(checkpointer.get_state(config())) == ["a"]
