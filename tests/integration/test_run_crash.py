"""A run that is killed anywhere: nothing is lost or doubled, and it goes on where it was."""

from pathlib import Path

import programs
import pytest

# Forks once for every attempt, which costs a hundredth of starting an interpreter. Nothing is
# connected before the fork. The child runs a graph of five nodes on a thread; the parent kills it
# after a random part of the time that a whole run takes, and forks again until a child gets to
# the end.
STORM = """
import os, random, signal, sys, time
from typing import Annotated
from operator import add
from pydantic import Field
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage import create_checkpointer

dsn, kills_wanted, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = {"redis_url": sys.argv[4]} if sys.argv[4:] else {}
rolls = random.Random(seed)
NODES = ["a", "b", "c", "d", "e"]

class Trail(AgentState):
    steps: Annotated[list[str], add] = Field(default_factory=list)

def node(name):
    async def run(state):
        return {"steps": [name], "messages": [Message.assistant(f"{name} was here")]}
    return run

def build():
    graph = StateGraph(Trail)
    for name in NODES:
        graph.add_node(name, node(name))
    graph.set_entry_point("a")
    for one, other in zip(NODES, NODES[1:]):
        graph.add_edge(one, other)
    return graph.compile(checkpointer=create_checkpointer(dsn, **options))

def attempt(config):
    # The question has an id of its own, so a client may send it again and again.
    question = Message.text_message("Go.", message_id=f"question-{config['thread_id']}")
    app = build()
    app.invoke({"messages": [question]}, {**config, "run_id": f"run-{config['thread_id']}"})

def fork(config):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            attempt(config)
            code = 0
        finally:
            os._exit(code)
    return child

def check(config):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            app = build()
            state = app.get_state(config)
            cp = app.checkpointer
            assert state.execution_meta.status == "completed", state.execution_meta
            assert state.steps == NODES, state.steps
            expected = ["Go.", *(f"{name} was here" for name in NODES)]
            assert [m.text() for m in state.context] == expected, state.context
            assert [m.text() for m in cp.list_messages(config)] == expected
            versions = [one.version for one in cp.list_states(config)]
            assert versions == list(range(versions[0], 0, -1))[:20], versions
            code = 0
        except BaseException as error:
            print("FAULT", config, repr(error), flush=True)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, config

# Connects nothing, but loads what every child would have to load.
create_checkpointer(dsn, **options)
started = time.monotonic()
assert os.waitpid(fork({"thread_id": f"whole-{seed}", "user_id": "u"}), 0)[1] == 0
span = time.monotonic() - started

kills = threads = 0
while kills < kills_wanted:
    config = {"thread_id": f"thread-{seed}-{threads}", "user_id": "u"}
    threads += 1
    while True:
        child = fork(config)
        time.sleep(rolls.uniform(0.0, 1.2 * span))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
            continue
        assert status == 0, status
        break
    check(config)
print(kills, threads)
"""


@pytest.mark.crash
@pytest.mark.parametrize("database", ["sqlite", "postgres", "postgres+redis"])
def test_a_run_killed_at_random_moments_ends_with_every_node_done_once(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if database == "sqlite":
        dsn = str(tmp_path / "threads.db")
        programs.run(
            "from tenxgraph.storage import create_checkpointer\n"
            "import sys; create_checkpointer(sys.argv[1]).setup()",
            dsn,
        )
    else:
        dsn = request.getfixturevalue("postgres_dsn")
    cached = database.endswith("redis")
    redis_url = [request.getfixturevalue("redis_server").url()] if cached else []
    told = programs.run(STORM, dsn, "100", "7", *redis_url, flags=(), timeout=180)
    kills, threads = map(int, told.split())
    assert kills >= 100
    assert threads >= 5
