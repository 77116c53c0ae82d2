"""Sync nodes and tools, which block: each has a thread, however many there are at once."""

import asyncio
import contextvars
import threading

import programs
import pytest
from graphs import chain, config, said

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.state import ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel

AT_ONCE = 100


async def test_any_number_of_sync_nodes_may_run_other_graphs_at_once() -> None:
    all_there = threading.Barrier(AT_ONCE)

    def inner() -> str:
        return "inner"

    other = chain(inner)

    def outer() -> str:
        all_there.wait(20)
        return f"outer, {other.invoke('hi')['messages'][0].text()}"

    app = chain(outer)
    runs = (app.ainvoke("hi", config(f"t{number}")) for number in range(AT_ONCE))
    results = await asyncio.wait_for(asyncio.gather(*runs), 40)
    assert {tuple(said(one["messages"])) for one in results} == {("assistant: outer, inner",)}


@pytest.mark.parametrize("what", ["node", "tool"])
def test_a_program_ends_although_a_sync_function_hangs(what: str) -> None:
    assert programs.run(HANGS, what, timeout=20) == "timed out\n"


HANGS = """
    import sys, time
    from tenxgraph.core.exceptions import NodeError
    from tenxgraph.core.graph import StateGraph
    from tenxgraph.core.state import ToolCall
    from tenxgraph.prebuilt.agent import ReactAgent
    from tenxgraph.testing import ScriptedModel

    def hang() -> None:
        time.sleep(1000)

    if sys.argv[1] == "node":
        app = StateGraph().add_node(hang).set_entry_point("hang").compile()
    else:
        model = ScriptedModel([ToolCall(id="1", name="hang", args={}), "ok"])
        app = ReactAgent(model, [hang]).compile()
    try:
        app.invoke("hi", {"node_timeout": 0.2})
    except NodeError:
        print("timed out")
"""


async def test_a_sync_node_sees_the_context_variables_of_its_run() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    def node() -> str:
        seen = who.get()
        who.set("the node")
        return seen

    who.set("the caller")
    result = await chain(node).ainvoke("hi", config())
    assert said(result["messages"]) == ["assistant: the caller"]
    assert who.get() == "the caller"


def test_a_forked_child_runs_sync_nodes_in_threads_of_its_own() -> None:
    flags = ("-X", "dev", "-W", "error", "-W", "ignore:This process:DeprecationWarning")
    assert programs.run(FORKS, flags=flags, timeout=20) == "done\n"


FORKS = """
    import os
    from tenxgraph.core.graph import StateGraph

    app = StateGraph().add_node("a", lambda: "a").set_entry_point("a").compile()
    app.invoke("hi")
    pid = os.fork()
    if not pid:
        app.invoke("hi")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    app.invoke("hi")
    print("done")
"""


def test_where_the_system_gives_no_more_threads_calls_take_turns() -> None:
    assert programs.run(FEW_THREADS, flags=(), timeout=40) == "200 runs in less than 100 threads\n"


# Each thread takes eight megabytes of addresses, of which the program has but some hundreds left.
FEW_THREADS = """
    import asyncio, resource, threading, time
    from tenxgraph.core.graph import StateGraph

    most = 0
    def node():
        global most
        most = max(most, threading.active_count())
        time.sleep(0.05)

    app = StateGraph().add_node(node).set_entry_point("node").compile()

    async def main():
        await app.ainvoke("hi")
        with open("/proc/self/statm") as pages:
            used = int(pages.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 400 * 2**20,) * 2)
        results = await asyncio.gather(*(app.ainvoke("hi") for _ in range(200)))
        print(len(results), "runs in", "less than 100 threads" if most < 100 else f"{most} threads")

    asyncio.run(main())
"""


async def test_a_sync_function_that_runs_out_of_items_fails_like_any_other() -> None:
    def first() -> str:
        """Get the first."""
        return next(iter([]))

    with pytest.raises(NodeError, match=r"'first' of thread 't' failed: .*StopIteration"):
        await chain(first).ainvoke("hi", config(node_timeout=5))
    model = ScriptedModel([ToolCall(id="1", name="first", args={}), "ok"])
    result = await ReactAgent(model, [first]).compile().ainvoke("hi", config(tool_timeout=5))
    assert "StopIteration" in result["messages"][1].text()
