"""Several runs on one thread, and what else happens to it while a run goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import Writes, chain, config, on_durable, said

from tenxgraph.core.exceptions import StaleStateError, ThreadOwnershipError
from tenxgraph.core.state import AgentState, Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.checkpointer import ThreadInfo
from tenxgraph.testing import ScriptedModel

pytestmark = on_durable


def answer() -> str:
    return "answer"


def gated(checkpointer: Checkpointer, runs: int) -> None:
    """Let no run write before so many have read."""
    read, everybody = 0, asyncio.Event()
    get = checkpointer.aget_state

    async def aget_state(*arguments: Any, **named: Any) -> Any:
        nonlocal read
        state = await get(*arguments, **named)
        read += 1
        if read >= runs:
            everybody.set()
        await everybody.wait()
        return state

    checkpointer.aget_state = aget_state  # type: ignore[method-assign]


async def test_three_runs_that_read_the_same_version_have_one_winner(
    checkpointer: Checkpointer,
) -> None:
    gated(checkpointer, 3)
    app = chain(answer, checkpointer=checkpointer)
    results = await asyncio.gather(
        *(app.ainvoke(name, config()) for name in "abc"), return_exceptions=True
    )
    (winner,) = [name for name, r in zip("abc", results, strict=True) if isinstance(r, dict)]
    losers = [one for one in results if isinstance(one, StaleStateError)]
    assert [one.expected_version for one in losers] == [0, 0]
    assert all(one.current_version for one in losers)
    assert said(await app.aget_state(config())) == [f"user: {winner}", "assistant: answer"]
    messages = said(await checkpointer.alist_messages(config()))
    assert messages == [f"user: {winner}", "assistant: answer"], "nothing of the losers"
    retried = await app.ainvoke("again", config())
    assert len(retried["state"].context) == 4


async def test_ten_runs_that_race_have_one_winner(
    checkpointer: Checkpointer,
) -> None:
    app = chain(answer, checkpointer=checkpointer)
    await app.ainvoke("first", config())
    gated(checkpointer, 10)
    results = await asyncio.gather(
        *(app.ainvoke(str(i), config()) for i in range(10)), return_exceptions=True
    )
    won = [str(i) for i, result in enumerate(results) if isinstance(result, dict)]
    assert len(won) == 1
    assert sum(isinstance(result, StaleStateError) for result in results) == 9
    context = said(await app.aget_state(config()))
    assert context[2:] == [f"user: {won[0]}", "assistant: answer"]


async def test_a_run_that_was_overtaken_ends_stale_and_leaves_no_trace_of_its_node(
    backend: Backend,
) -> None:
    reached, released = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        reached.set()
        await released.wait()
        return "slow"

    app = chain(slow, checkpointer=backend.make())
    running = asyncio.create_task(app.ainvoke("hi", config()))
    await reached.wait()
    other = backend.make()
    theirs = config()
    state = await other.aget_state(theirs)
    assert state is not None
    await other.aput_state(theirs, state.model_copy(update={"context_summary": "other"}))
    released.set()
    with pytest.raises(StaleStateError):
        await running
    state = await other.aget_state(config())
    assert state is not None
    assert (said(state), state.context_summary) == (["user: hi"], "other")
    assert said(await other.alist_messages(config())) == ["user: hi"]


async def test_what_a_node_does_to_its_thread_besides_does_not_make_its_run_stale(
    checkpointer: Checkpointer,
) -> None:
    async def busy(config: dict[str, Any], checkpointer: Any) -> str:
        await checkpointer.aput_thread(config, ThreadInfo(thread_id="t", thread_name="renamed"))
        await checkpointer.aput_messages(config, [Message.text_message("aside")])
        assert await checkpointer.aget_state(config) is not None
        config["_checkpoint_version"] = 77
        config["thread_id"] = "elsewhere"
        return "done"

    app = chain(busy, busy_again := _named(busy, "again"), checkpointer=checkpointer)
    assert busy_again.__name__ == "again"
    result = await app.ainvoke("hi", config())
    assert said(result["state"]) == ["user: hi", "assistant: done", "assistant: done"]
    info = await checkpointer.aget_thread(config())
    assert info is not None
    assert info.thread_name == "renamed"


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    async def wrapped(config: dict[str, Any], checkpointer: Any) -> Any:
        return await function(config, checkpointer)

    wrapped.__name__ = name
    return wrapped


async def test_a_deleted_thread_stays_deleted_whatever_its_run_still_writes(
    backend: Backend,
) -> None:
    reached, released = asyncio.Event(), asyncio.Event()
    refused: list[BaseException] = []

    async def slow(config: dict[str, Any], checkpointer: Any) -> str:
        reached.set()
        await released.wait()
        for write in (
            checkpointer.aput_messages(config, [Message.text_message("late")]),
            checkpointer.aput_state(config, AgentState()),
        ):
            try:
                await write
            except StaleStateError as error:
                refused.append(error)
        return "late"

    app = chain(slow, checkpointer=backend.make())
    running = asyncio.create_task(app.ainvoke("hi", config()))
    await reached.wait()
    other = backend.make()
    assert await other.aclean_thread(config())
    released.set()
    with pytest.raises(StaleStateError):
        await running
    assert len(refused) == 2
    assert await other.aget_state(config()) is None
    assert await other.aget_thread(config()) is None
    assert said(await other.alist_messages(config())) == []


async def test_another_users_thread_reads_as_new_and_cannot_be_written(
    checkpointer: Checkpointer,
) -> None:
    app = chain(answer, checkpointer=checkpointer)
    await app.ainvoke("secret", config())
    thief = {"thread_id": "t", "user_id": "thief"}
    assert await app.aget_state(thief) is None
    with pytest.raises(ThreadOwnershipError):
        await app.ainvoke("give", thief)
    assert not await app.astop(thief)
    assert said(await app.aget_state(config())) == ["user: secret", "assistant: answer"]


async def test_a_long_thread_grows_by_its_messages_alone(
    checkpointer: Checkpointer,
) -> None:
    sizes: list[int] = []
    writes = Writes(checkpointer)
    app = chain(answer, checkpointer=checkpointer)
    for turn in range(60):
        await app.ainvoke("x" * 1_000, config())
        if turn in (19, 39, 59):
            lines = [line async for line in checkpointer.aexport_thread(config())]
            sizes.append(sum(map(len, lines)))
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second < first * 1.1, "as much for the last twenty turns as for those before"
    assert second < 20 * 2 * 1_500
    assert len(writes.states) == 120
    assert len(await checkpointer.alist_states(config())) == 20


async def test_racing_agents_leave_every_call_with_its_own_result(backend: Backend) -> None:
    ran: list[str] = []

    async def note(word: str) -> str:
        ran.append(word)
        await asyncio.sleep(0)
        return f"noted {word}"

    def script(messages: list[Message], _tools: Any) -> Any:
        if messages[-1].role == "tool":
            return "done"
        words = ("a", "b")
        said = messages[-1].text()
        return [ToolCall(id="same", name="note", args={"word": f"{said}{one}"}) for one in words]

    checkpointers = [backend.make() for _ in range(3)]
    apps = [ReactAgent(ScriptedModel(script), [note]).compile(one) for one in checkpointers]
    wins = 0
    for turn in range(5):
        results = await asyncio.gather(
            *(app.ainvoke(f"{turn}{i}", config()) for i, app in enumerate(apps)),
            return_exceptions=True,
        )
        assert all(isinstance(one, dict | StaleStateError) for one in results)
        wins += sum(isinstance(one, dict) for one in results)
    assert wins >= 5
    context = said(await apps[0].aget_state(config()))
    assert len(context) == 5 * wins
    for start in range(0, len(context), 5):
        asked = context[start].removeprefix("user: ")
        assert context[start + 1 : start + 5] == [
            "assistant: ",
            f"tool: noted {asked}a",
            f"tool: noted {asked}b",
            "assistant: done",
        ]
    assert len(ran) == 2 * wins, "no tool of a loser has run"
