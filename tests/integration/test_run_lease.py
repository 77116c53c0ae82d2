"""A run that is alive is left alone; one whose process has died is taken over."""

import asyncio
import os
import signal
import subprocess
import time
from typing import Any

import programs
import pytest
from backends import Backend

from tenxgraph.core.exceptions import RunInProgressError, StaleStateError
from tenxgraph.core.graph import CompiledGraph, StateGraph
from tenxgraph.core.state import AgentState

THREAD = {"thread_id": "t", "user_id": "u"}

# A worker that says when its node has begun, and then stays in it.
WORKER = """
import sys, time
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.storage import create_checkpointer

def slow(state):
    print("in the node", flush=True)
    sys.stdin.readline()
    return "late"

app = StateGraph(AgentState).add_node("slow", slow).set_entry_point("slow")
app = app.compile(checkpointer=create_checkpointer(sys.argv[1]))
config = {"thread_id": "t", "user_id": "u", "lease_timeout": float(sys.argv[2])}
try:
    app.invoke("Go.", config)
    print("done", flush=True)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


class Gate:
    """A graph of one node that waits to be let through, and counts how often it ran."""

    def __init__(self, backend: Backend) -> None:
        self.calls = 0
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        graph = StateGraph(AgentState).add_node("slow", self._slow).set_entry_point("slow")
        self.app: CompiledGraph[Any] = graph.compile(checkpointer=backend.make())

    async def _slow(self) -> str:
        self.calls += 1
        self.entered.set()
        await self.open.wait()
        return "done"


async def test_a_live_run_is_not_recovered_however_long_its_node_takes(backend: Backend) -> None:
    gate, other = Gate(backend), Gate(backend)
    config = {**THREAD, "lease_timeout": 0.3}
    running = asyncio.ensure_future(gate.app.ainvoke("Go.", config))
    await gate.entered.wait()
    ends = time.monotonic() + 0.9  # three times the lease: it is renewed
    while time.monotonic() < ends:
        with pytest.raises(RunInProgressError) as caught:
            await other.app.ainvoke(None, config)
        assert caught.value.holder
        assert isinstance(caught.value, StaleStateError)
    gate.open.set()
    result = await running
    assert result["state"].execution_meta.status == "completed"
    assert (gate.calls, other.calls) == (1, 0)


async def test_a_run_that_ended_leaves_the_thread_free(backend: Backend) -> None:
    first, second = Gate(backend), Gate(backend)
    first.open.set()
    second.open.set()
    await first.app.ainvoke("One.", THREAD)
    await second.app.ainvoke("Two.", THREAD)
    running = asyncio.ensure_future(Gate(backend).app.ainvoke("Three.", THREAD))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    result = await second.app.ainvoke("Four.", THREAD)
    assert result["state"].execution_meta.status == "completed"


@pytest.fixture(params=["sqlite", "postgres"])
def dsn(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_dsn")
    path = str(tmp_path / "threads.db")
    programs.run(
        "import sys; from tenxgraph.storage import create_checkpointer\n"
        "create_checkpointer(sys.argv[1]).setup()",
        path,
    )
    return path


def start_worker(dsn: str, lease: float) -> subprocess.Popen[str]:
    worker = programs.start(WORKER, dsn, str(lease))
    assert worker.stdout is not None
    assert worker.stdout.readline() == "in the node\n"
    return worker


def app_on(dsn: str) -> CompiledGraph[Any]:
    from tenxgraph.storage import create_checkpointer

    async def slow() -> str:
        return "done by the second"

    graph = StateGraph(AgentState).add_node("slow", slow).set_entry_point("slow")
    return graph.compile(checkpointer=create_checkpointer(dsn))


@pytest.mark.crash
async def test_a_killed_process_is_seen_and_its_run_taken_over_at_once(dsn: str) -> None:
    worker = start_worker(dsn, 600.0)
    async with app_on(dsn) as app:
        with pytest.raises(RunInProgressError):
            await app.ainvoke(None, THREAD)
        worker.kill()
        worker.communicate()
        result = await app.ainvoke(None, THREAD)
    assert [message.text() for message in result["messages"]] == ["done by the second"]
    assert [message.text() for message in result["state"].context] == ["Go.", "done by the second"]


@pytest.mark.crash
async def test_a_process_that_hangs_loses_the_thread_and_its_late_write_is_refused(
    dsn: str,
) -> None:
    worker = start_worker(dsn, 0.5)
    os.kill(worker.pid, signal.SIGSTOP)
    async with app_on(dsn) as app:
        deadline = time.monotonic() + 20
        while True:
            try:
                result = await app.ainvoke(None, THREAD)
                break
            except RunInProgressError:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
        os.kill(worker.pid, signal.SIGCONT)
        output, _ = await asyncio.to_thread(worker.communicate, "\n", 30)
        assert output.strip() == "StaleStateError"
        state = await app.aget_state(THREAD)
    assert state is not None
    assert [message.text() for message in state.context] == ["Go.", "done by the second"]
    assert result["state"].execution_meta.run_id == state.execution_meta.run_id


async def test_a_stop_from_another_process_ends_the_node_in_progress(dsn: str) -> None:
    worker = start_worker(dsn, 30.0)
    async with app_on(dsn) as app:
        assert await app.astop(THREAD)
        assert worker.stdout is not None
        ended = await asyncio.wait_for(asyncio.to_thread(worker.stdout.readline), 20)
        assert ended == "done\n"
        state = await app.aget_state(THREAD)
        assert state is not None
        assert state.execution_meta.status == "stopped"
        result = await app.ainvoke("Go on.", THREAD)
        await asyncio.to_thread(worker.communicate, "\n", 30)
    assert result["state"].execution_meta.status == "completed"
