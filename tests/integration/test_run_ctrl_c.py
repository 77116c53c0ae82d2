"""Ctrl-C during a sync call: the run is stopped, and that is stored, before the caller goes on."""

import signal
import threading
from pathlib import Path

import programs
import pytest

THREAD = {"thread_id": "t", "user_id": "u"}

# Says when the node is at work, and what became of it.
PROGRAM = """
    import asyncio, sys, time
    from tenxgraph.core.graph import StateGraph
    from tenxgraph.storage import create_checkpointer
    from tenxgraph import _loop_thread

    def say(what):
        print(what, flush=True)

    async def tidy():
        say("at work")
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0.2)
            say("tidied up")

    def blocking():
        say("at work")
        time.sleep(1000)

    async def slow_to_end():
        await asyncio.sleep(0.2)  # until the main thread waits for the next chunk
        say("at work")
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            say("not yet")
            while not released:
                await asyncio.sleep(0.01)
            raise

    node = {"blocking": blocking}.get(sys.argv[2], tidy)
    if sys.argv[2].startswith("slow to end"):
        node = slow_to_end
    graph = StateGraph().add_node("first", lambda: "first").add_node("node", node)
    graph.set_entry_point("first").add_edge("first", "node")
    app = graph.compile(checkpointer=create_checkpointer(sys.argv[1]))
    app.checkpointer.setup()
    thread = {"thread_id": "t", "user_id": "u"}

    def call():
        if sys.argv[2].endswith("stream"):
            for chunk in app.stream("hi", thread):
                pass
        elif sys.argv[2] == "consumer":
            for chunk in app.stream("hi", thread):
                if chunk.type == "update":
                    time.sleep(1000)
        else:
            app.invoke("hi", thread)

    _loop_thread.PATIENCE, released = float(sys.argv[3]), False
    try:
        call()
    except KeyboardInterrupt:
        say("interrupted: " + app.get_state(thread).execution_meta.status)
    released = True
    while app.get_state(thread).execution_meta.status != "stopped":
        time.sleep(0.01)
"""


def interrupted(dsn: str, what: str, *, times: int = 1, patience: float = 30) -> list[str]:
    """Run the program, press Ctrl-C while its node is at work, and return what it said since."""
    program = programs.start(PROGRAM, dsn, what, str(patience))
    assert program.stdout is not None
    overdue = threading.Timer(60, program.kill)
    overdue.daemon = True
    overdue.start()
    said = []
    while program.stdout.readline() not in ("at work\n", ""):
        pass
    for number in range(times):
        if number:
            said.append(program.stdout.readline().strip())
        program.send_signal(signal.SIGINT)
    overdue.cancel()
    return said + programs.finish(program, timeout=20)[0].splitlines()


@pytest.fixture(params=["sqlite", "postgres"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "threads.db")
    return str(request.getfixturevalue("empty_postgres"))


@pytest.mark.parametrize("what", ["tidy", "blocking", "stream", "consumer"])
def test_ctrl_c_stops_the_run_and_then_the_caller(dsn: str, what: str) -> None:
    said = ["interrupted: stopped"] if what == "blocking" else ["tidied up", "interrupted: stopped"]
    assert interrupted(dsn, what) == said
    with programs.opened(dsn) as kept:
        state = kept.get_state(THREAD)
    assert state is not None
    assert (state.execution_meta.current_node, state.execution_meta.status) == ("node", "stopped")
    assert [message.text() for message in state.context] == ["hi", "first"]


@pytest.mark.parametrize("what", ["slow to end", "slow to end, stream"])
@pytest.mark.parametrize(("times", "patience"), [(1, 0.5), (2, 30)])
def test_a_node_that_does_not_end_holds_the_caller_for_a_while_or_until_a_second_ctrl_c(
    tmp_path: Path, what: str, times: int, patience: float
) -> None:
    said = interrupted(str(tmp_path / "threads.db"), what, times=times, patience=patience)
    assert said == ["not yet", "interrupted: running"]
