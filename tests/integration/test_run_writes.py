"""What a run writes and when, and where it goes on after a crash, an error, a stop or a pause."""

import asyncio
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import Writes, also_behind_redis, chain, config, said

from tenxgraph.core.exceptions import (
    GraphError,
    GraphRecursionError,
    NodeError,
    SerializationError,
    TransientStorageError,
)
from tenxgraph.core.graph import END, StateGraph, interrupt
from tenxgraph.core.state import AgentState

pytestmark = also_behind_redis


class Notes(AgentState):
    topic: Any = None


class CrashError(Exception):
    """The process dies: nothing that comes later is written."""


def one() -> str:
    return "1"


async def two() -> str:
    return "2"


def three() -> str:
    return "3"


async def test_one_write_at_the_start_and_one_after_every_node(checkpointer: Checkpointer) -> None:
    writes = Writes(checkpointer)
    app = chain(one, two, three, checkpointer=checkpointer)
    result = await app.ainvoke("hi", config())
    assert said(result["messages"]) == ["assistant: 1", "assistant: 2", "assistant: 3"]
    assert writes.steps() == [
        ("one", "running"),
        ("two", "running"),
        ("three", "running"),
        ("three", "completed"),
    ]
    assert writes.order[-2:] == ["durable", "cache"]
    assert writes.order.count("durable") == 4
    assert [len(state.context) for state in writes.states] == [1, 2, 3, 4]
    stored = await checkpointer.aget_state(config())
    assert stored is not None
    assert said(stored) == ["user: hi", "assistant: 1", "assistant: 2", "assistant: 3"]
    assert len(await checkpointer.alist_states(config())) == 4


async def test_a_long_loop_writes_once_a_node_and_no_start_node_costs_a_write(
    checkpointer: Checkpointer,
) -> None:
    writes = Writes(checkpointer)
    graph = StateGraph().add_node("tick", lambda: None).set_entry_point("tick")
    graph.add_conditional_edges(
        "tick", lambda state: END if state.execution_meta.step >= 20 else "tick"
    )
    await graph.compile(checkpointer=checkpointer).ainvoke("hi", config())
    # The condition sees the state before its step is counted.
    assert len(writes.states) == 1 + 21


@pytest.mark.parametrize("crash_at", [0, 1, 2, 3])
async def test_a_crash_costs_at_most_the_node_that_was_running(
    backend: Backend, crash_at: int
) -> None:
    ran: list[str] = []

    def first() -> str:
        ran.append("first")
        return "1"

    def second() -> str:
        ran.append("second")
        return "2"

    def third() -> str:
        ran.append("third")
        return "3"

    dying = backend.make()
    writes = Writes(dying)

    def die(_state: AgentState) -> None:
        if len(writes.states) >= crash_at:
            raise CrashError

    writes.before = die
    with pytest.raises(CrashError):
        await chain(first, second, third, checkpointer=dying).ainvoke("hi", config(run_id="r"))
    before = list(ran)
    again = chain(first, second, third, checkpointer=backend.make())
    result = await again.ainvoke("hi", config(run_id="r"))
    assert said(result["state"]) == ["user: hi", "assistant: 1", "assistant: 2", "assistant: 3"]
    assert result["run_id"] == "r"
    names = ["first", "second", "third"]
    assert before == names[:crash_at]
    done = max(0, crash_at - 1)
    assert ran == names[:crash_at] + names[done:], "finished nodes are not run again"


async def test_the_recorded_run_goes_on_without_input_under_its_own_run_id(
    backend: Backend,
) -> None:
    dying = backend.make()
    writes = Writes(dying)

    def die(state: AgentState) -> None:
        if len(writes.states) == 2:
            raise CrashError

    writes.before = die
    with pytest.raises(CrashError):
        await chain(one, two, three, checkpointer=dying).ainvoke("hi", config())
    first = writes.states[0].execution_meta.run_id
    result = await chain(one, two, three, checkpointer=backend.make()).ainvoke(None, config())
    assert said(result["messages"]) == ["assistant: 2", "assistant: 3"]
    assert result["run_id"] == first


async def test_an_error_is_recorded_and_a_retry_runs_only_what_is_left(
    checkpointer: Checkpointer,
) -> None:
    failures = [RuntimeError("out of order")]
    ran: list[str] = []

    def start() -> str:
        ran.append("start")
        return "1"

    def work(state: Notes) -> str:
        state.topic = "half done"
        ran.append("work")
        if failures:
            raise failures.pop()
        return "2"

    writes = Writes(checkpointer)
    app = chain(start, work, state=Notes, checkpointer=checkpointer)
    with pytest.raises(NodeError, match=r"'work' of thread 't' failed: RuntimeError: out") as told:
        await app.ainvoke("hi", config())
    assert told.value.node == "work"
    assert isinstance(told.value.__cause__, RuntimeError)
    assert writes.steps()[-1] == ("work", "error")
    state = await app.aget_state(config())
    assert state is not None
    assert "out of order" in (state.execution_meta.error or "")
    assert state.topic is None
    result = await app.ainvoke(None, config())
    assert ran == ["start", "work", "work"]
    assert said(result["state"]) == ["user: hi", "assistant: 1", "assistant: 2"]
    assert result["state"].execution_meta.error is None


async def test_a_new_message_after_an_error_begins_a_new_run(checkpointer: Checkpointer) -> None:
    failures = [RuntimeError("no")]

    def work() -> str:
        if failures:
            raise failures.pop()
        return "done"

    app = chain(work, checkpointer=checkpointer)
    with pytest.raises(NodeError):
        await app.ainvoke("hi", config(run_id="r1"))
    result = await app.ainvoke("again", config())
    assert said(result["state"]) == ["user: hi", "user: again", "assistant: done"]
    assert result["run_id"] != "r1"


async def test_a_retry_of_a_failed_run_by_its_id_adds_its_message_once(
    checkpointer: Checkpointer,
) -> None:
    failures = [RuntimeError("no")]

    def model() -> str:
        if failures:
            raise failures.pop()
        return "yes"

    app = chain(model, checkpointer=checkpointer)
    for _ in range(2):
        try:
            await app.ainvoke("q", config(run_id="r1"))
        except NodeError:
            continue
    assert said(await app.aget_state(config())) == ["user: q", "assistant: yes"]
    assert said(await checkpointer.alist_messages(config())) == ["user: q", "assistant: yes"]


async def test_a_finished_run_sent_again_under_its_id_is_a_new_turn(
    checkpointer: Checkpointer,
) -> None:
    app = chain(one, checkpointer=checkpointer)
    for _ in range(2):
        await app.ainvoke("yes", config())
    users = [text for text in said(await app.aget_state(config())) if text.startswith("user")]
    assert users == ["user: yes", "user: yes"], "the same words are not the same message"


async def test_messages_are_stored_once_however_many_turns(checkpointer: Checkpointer) -> None:
    app = chain(one, checkpointer=checkpointer)
    for turn in range(5):
        await app.ainvoke(f"q{turn}", config())
        assert len(await checkpointer.alist_messages(config())) == 2 * (turn + 1)


async def test_what_cannot_be_stored_is_an_error_of_the_run_and_the_thread_goes_on(
    checkpointer: Checkpointer,
) -> None:
    returned: list[Any] = [object(), "text"]

    def node() -> dict[str, Any]:
        return {"topic": returned.pop(0)}

    app = chain(node, state=Notes, checkpointer=checkpointer)
    with pytest.raises(SerializationError, match="topic"):
        await app.ainvoke("hi", config())
    state = await app.aget_state(config())
    assert state is not None
    assert (state.execution_meta.status, state.topic) == ("error", None)
    result = await app.ainvoke(None, config())
    assert result["state"].topic == "text"


async def test_a_database_that_is_away_fails_the_run_which_goes_on_later(
    checkpointer: Checkpointer,
) -> None:
    writes = Writes(checkpointer)

    def away(_state: AgentState) -> None:
        if len(writes.states) == 2:
            raise TransientStorageError("The database does not answer.")

    writes.before = away
    app = chain(one, two, checkpointer=checkpointer)
    with pytest.raises(TransientStorageError):
        await app.ainvoke("hi", config())
    writes.before = None
    result = await app.ainvoke(None, config())
    assert said(result["state"]) == ["user: hi", "assistant: 1", "assistant: 2"]


async def test_too_many_steps_are_an_error_with_the_work_so_far_kept(
    checkpointer: Checkpointer,
) -> None:
    graph = StateGraph().add_node("tick", lambda: "tick").set_entry_point("tick")
    app = graph.add_edge("tick", "tick").compile(checkpointer=checkpointer)
    with pytest.raises(GraphRecursionError, match="took 25 steps"):
        await app.ainvoke("hi", config())
    with pytest.raises(GraphRecursionError, match="took 3 steps"):
        await app.ainvoke("hi", config("short", recursion_limit=3))
    state = await app.aget_state(config("short"))
    assert state is not None
    assert len(state.context) == 4
    assert state.execution_meta.status == "error"
    with pytest.raises(GraphRecursionError, match="took 5 steps"):
        await app.ainvoke(None, config("short", recursion_limit=5))


async def test_a_node_that_takes_too_long_is_cancelled(checkpointer: Checkpointer) -> None:
    cancelled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    app = chain(slow, checkpointer=checkpointer)
    with pytest.raises(NodeError, match=r"'slow' took longer than 0.05 s"):
        await app.ainvoke("hi", config(node_timeout=0.05))
    assert cancelled.is_set()
    state = await app.aget_state(config())
    assert state is not None
    assert state.execution_meta.status == "error"


async def test_a_cancelled_caller_leaves_the_thread_stopped_and_it_goes_on(
    checkpointer: Checkpointer,
) -> None:
    reached, released = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        reached.set()
        await released.wait()
        return "done"

    app = chain(one, slow, checkpointer=checkpointer)
    running = asyncio.create_task(app.ainvoke("hi", config()))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    state = await app.aget_state(config())
    assert state is not None
    assert (state.execution_meta.current_node, state.execution_meta.status) == ("slow", "stopped")
    released.set()
    result = await app.ainvoke(None, config())
    assert said(result["state"]) == ["user: hi", "assistant: 1", "assistant: done"]


async def test_a_cancellation_in_the_middle_of_a_write_waits_until_it_is_whole(
    checkpointer: Checkpointer,
) -> None:
    app = chain(one, two, three, checkpointer=checkpointer)
    for ticks in range(0, 40, 3):
        thread = config(f"cut {ticks}")
        running = asyncio.create_task(app.ainvoke("hi", thread))
        for _ in range(ticks):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,))
        state = await app.aget_state(thread)
        if state is not None and state.execution_meta.status != "completed":
            assert state.execution_meta.status == "stopped"
            state = (await app.ainvoke(None, thread))["state"]
        assert said(state) in ([], ["user: hi", "assistant: 1", "assistant: 2", "assistant: 3"])


async def test_a_stop_cancels_the_node_and_the_thread_can_go_on(
    checkpointer: Checkpointer, backend: Backend
) -> None:
    reached, released = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        reached.set()
        await released.wait()
        return "done"

    app = chain(one, slow, checkpointer=checkpointer)
    # Another graph, as in another process: it can only reach the run through the database.
    elsewhere = chain(one, slow, checkpointer=backend.make())
    assert not await elsewhere.astop(config("unknown"))
    for stopper in (app, elsewhere):
        thread = config(f"{stopper is app}")
        reached.clear()
        released.clear()
        running = asyncio.create_task(app.ainvoke("hi", thread))
        await reached.wait()
        assert await stopper.astop(thread)
        stopped = await asyncio.wait_for(running, 5)
        assert stopped["state"].execution_meta.status == "stopped"
        assert said(stopped["state"]) == ["user: hi", "assistant: 1"]
        released.set()
        result = await app.ainvoke("more", thread)
        assert said(result["state"])[2:] == ["user: more", "assistant: 1", "assistant: done"]
        assert not await checkpointer.ais_stop_requested(thread)


async def test_a_stop_meant_for_an_earlier_run_does_not_stop_the_next(
    checkpointer: Checkpointer,
) -> None:
    app = chain(one, two, checkpointer=checkpointer)
    await app.ainvoke("hi", config())
    assert await app.astop(config())
    result = await app.ainvoke("more", config())
    assert said(result["messages"]) == ["assistant: 1", "assistant: 2"]


async def test_a_thread_whose_node_is_gone_says_so(backend: Backend) -> None:
    dying = backend.make()
    writes = Writes(dying)

    def die(_state: AgentState) -> None:
        if len(writes.states) == 2:
            raise CrashError

    writes.before = die
    with pytest.raises(CrashError):
        await chain(one, two, checkpointer=dying).ainvoke("hi", config())
    renamed = chain(one, three, checkpointer=backend.make())
    with pytest.raises(GraphError, match="'two', but there is no such node"):
        await renamed.ainvoke(None, config())


async def test_what_a_failed_node_did_to_the_parts_of_its_state_is_not_stored(
    checkpointer: Checkpointer,
) -> None:
    attempts: list[Any] = []

    def work(state: Notes) -> dict[str, Any]:
        attempts.append(list(state.topic))
        state.topic.append("half done")
        if len(attempts) == 1:
            raise RuntimeError("no")
        if len(attempts) == 2:
            interrupt("sure?")
        return {"topic": ["done"]}

    app = chain(work, state=Notes(topic=[]), checkpointer=checkpointer)
    with pytest.raises(NodeError):
        await app.ainvoke("hi", config())
    await app.ainvoke(None, config())
    result = await app.ainvoke({"resume": "yes"}, config())
    assert attempts == [[], [], []]
    assert result["state"].topic == ["done"]


async def test_a_cancelled_run_is_cancelled_even_if_that_cannot_be_written(
    checkpointer: Checkpointer,
) -> None:
    reached = asyncio.Event()
    writes = Writes(checkpointer)

    def away(_state: AgentState) -> None:
        if reached.is_set():
            raise TransientStorageError("The database does not answer.")

    async def slow() -> None:
        reached.set()
        await asyncio.Event().wait()

    writes.before = away
    app = chain(slow, checkpointer=checkpointer)
    running = asyncio.create_task(app.ainvoke("hi", config()))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
