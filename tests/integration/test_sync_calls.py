"""Sync calls: their loop is there whenever they need it, until the very end of the program."""

import programs

LEAVES = """
    import sys
    from tenxgraph.core.graph import StateGraph

    def leave(state):
        if state.context[-1].text() == "leave":
            sys.exit(3)
        return "__end__"

    graph = StateGraph().add_node("node", lambda: None).set_entry_point("node")
    app = graph.add_conditional_edges("node", leave).compile()
    try:
        app.invoke("leave")
    except SystemExit as error:
        print("left with", error.code)
    print(app.invoke("stay")["state"].execution_meta.status)
"""

STOPS_THE_LOOP = """
    import asyncio
    from tenxgraph.core.graph import StateGraph

    async def stop():
        asyncio.get_running_loop().stop()

    app = StateGraph().add_node(stop).set_entry_point("stop").compile()
    for _ in range(2):
        print(app.invoke("hi")["state"].execution_meta.status)
"""

LATE = """
    import atexit
    from tenxgraph.core.graph import StateGraph

    async def node():
        return "hello"

    app = StateGraph().add_node(node).set_entry_point("node").compile()

    @atexit.register  # before the first call, so after whatever that has registered
    def at_the_end():
        print(app.invoke("hi")["messages"][0].text())
        app.close()

    app.invoke("hi")
"""

# Ctrl-C at every line of the way from a sync call to the loop thread, one after the other.
INTERRUPTED = """
    import os, sys
    import tenxgraph
    from tenxgraph.storage.checkpointer import InMemoryCheckpointer
    from threads import config, state

    folder = os.path.dirname(tenxgraph.__file__)
    files = [os.path.join(folder, name) for name in ("_sync.py", "_loop_thread.py")]

    def interrupting(number):
        left = number

        def trace(frame, event, argument):
            nonlocal left
            if frame.f_code.co_filename not in files:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        return trace

    def call():
        checkpointer.get_state(config())

    def iterate():
        lines = checkpointer.export_thread(config())
        next(lines)
        lines.close()

    checkpointer = InMemoryCheckpointer()
    checkpointer.put_state(config(), state("a"))
    for function in (call, iterate):
        function()
        for number in range(1, 1000):
            sys.settrace(interrupting(number))
            try:
                function()
            except KeyboardInterrupt:
                interrupted = number
            else:
                break
            finally:
                sys.settrace(None)
            function()
        assert 10 < interrupted == number - 1, (function, interrupted, number)
    print("done")
"""


def test_ctrl_c_on_the_way_to_the_loop_thread_leaves_nothing_behind() -> None:
    assert programs.run(INTERRUPTED, timeout=120) == "done\n"


def test_what_ends_a_process_ends_the_call_and_not_the_calls_after_it() -> None:
    assert programs.run(LEAVES, timeout=20) == "left with 3\ncompleted\n"


def test_a_node_that_stops_its_loop_stops_nobody() -> None:
    assert programs.run(STOPS_THE_LOOP, timeout=20) == "completed\ncompleted\n"


def test_sync_calls_work_until_the_end_of_the_program() -> None:
    assert programs.run(LATE, timeout=20) == "hello\n"
