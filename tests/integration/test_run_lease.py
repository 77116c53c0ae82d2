"""A run that is alive is left alone; one whose process has died is taken over."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import programs
import pytest
from backends import Backend

from tenxgraph.core.exceptions import RunInProgressError, StaleStateError
from tenxgraph.core.graph import CompiledGraph, RunResult, StateGraph
from tenxgraph.core.state import AgentState

THREAD = {"thread_id": "t", "user_id": "u"}

# A worker that says when its node has begun, and then stays in it: in a thread if it is sync, and
# else in the way of everything that its event loop should do.
WORKER = """
import os, sys
import clocks
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.storage import create_checkpointer

KIND slow(state):
    print("in the node", flush=True)
    sys.stdin.readline()
    return "late"

clocks.put_wrong(float(os.environ.get("CLOCK_IS_WRONG_BY", 0)))
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
        in_postgres: str = request.getfixturevalue("postgres_dsn")
        return in_postgres
    path = str(tmp_path / "threads.db")
    programs.run(
        "import sys; from tenxgraph.storage import create_checkpointer\n"
        "create_checkpointer(sys.argv[1]).setup()",
        path,
    )
    return path


WORKERS: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def no_worker_outlives_its_test() -> Iterator[None]:
    yield
    while WORKERS:
        worker = WORKERS.pop()
        if worker.poll() is None:
            worker.kill()
            worker.communicate()


def start_worker(
    dsn: str, lease: float, kind: str = "def", **variables: str
) -> subprocess.Popen[str]:
    source = WORKER.replace("KIND", kind)
    worker = programs.start(source, dsn, str(lease), variables=variables)
    WORKERS.append(worker)
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
async def test_a_process_at_work_keeps_its_thread_however_long_it_does_not_say_so(
    dsn: str,
) -> None:
    worker = start_worker(dsn, 0.3, "async def")
    async with app_on(dsn) as app:
        ends = time.monotonic() + 0.9
        while time.monotonic() < ends:
            with pytest.raises(RunInProgressError):
                await app.ainvoke(None, THREAD)
        output, errors = await asyncio.to_thread(worker.communicate, "\n", 30)
        assert (output, errors) == ("done\n", "")
        state = await app.aget_state(THREAD)
    assert state is not None
    assert [message.text() for message in state.context] == ["Go.", "late"]


@pytest.mark.crash
@pytest.mark.parametrize("seconds", ["-3600", "3600"])
async def test_a_claim_is_as_long_as_it_should_be_on_machines_whose_clocks_differ(
    seconds: str, postgres_dsn: str, elsewhere: str
) -> None:
    apart = {"TMPDIR": elsewhere, "CLOCK_IS_WRONG_BY": seconds}
    worker = start_worker(postgres_dsn, 3.0, **apart)
    async with app_on(postgres_dsn) as app:
        ends = time.monotonic() + 3.5
        while time.monotonic() < ends:
            with pytest.raises(RunInProgressError):
                await app.ainvoke(None, THREAD)
            await asyncio.sleep(0.1)
        worker.kill()
        worker.communicate()
        result = await taken_over(app)
    assert [message.text() for message in result["messages"]] == ["done by the second"]


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    """A folder for temporary files that is not ours, as in a container or on another machine."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return str(folder)


async def taken_over(app: CompiledGraph[Any]) -> RunResult[Any]:
    """What comes of the run once its claim has run out."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return await app.ainvoke(None, THREAD)
        except RunInProgressError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


@pytest.mark.crash
async def test_a_process_elsewhere_that_hangs_loses_the_thread_and_its_late_write_is_refused(
    dsn: str, elsewhere: str
) -> None:
    worker = start_worker(dsn, 0.5, TMPDIR=elsewhere)
    os.kill(worker.pid, signal.SIGSTOP)
    async with app_on(dsn) as app:
        result = await taken_over(app)
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
