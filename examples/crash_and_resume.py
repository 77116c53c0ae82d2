"""A worker is killed with SIGKILL inside a node; another one goes on with that very node.

Run it: python examples/crash_and_resume.py. It needs no service and no key.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from pydantic import Field

from tenxgraph.core.graph import CompiledGraph, StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import SqliteCheckpointer

THREAD = {"thread_id": "order-7", "user_id": "ada"}


class Order(AgentState):
    """How far the order is."""

    done: list[str] = Field(default_factory=list)


def build(folder: Path) -> CompiledGraph[Order]:
    """Three nodes in a row; the second one kills its process the first time."""

    def pack(state: Order) -> dict[str, list[str]]:
        print(f"  [{os.getpid()}] pack runs", flush=True)
        return {"done": [*state.done, "packed"]}

    def ship(state: Order) -> dict[str, list[str]]:
        print(f"  [{os.getpid()}] ship runs", flush=True)
        marker = folder / "killed-once"
        if not marker.exists():
            marker.touch()
            print(f"  [{os.getpid()}] ... and is killed in the middle of it", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return {"done": [*state.done, "shipped"]}

    def bill(state: Order) -> dict[str, list[str]]:
        print(f"  [{os.getpid()}] bill runs", flush=True)
        return {"done": [*state.done, "billed"]}

    graph = StateGraph(Order)
    graph.add_node("pack", pack).add_node("ship", ship).add_node("bill", bill)
    graph.set_entry_point("pack").add_edge("pack", "ship").add_edge("ship", "bill")
    return graph.compile(checkpointer=SqliteCheckpointer(folder / "orders.db"))


def main(folder: Path) -> None:
    """Let a worker die, look at what is left, and go on."""
    app = build(folder)
    app.checkpointer.setup()
    print("A worker takes the order:")
    worker = subprocess.run([sys.executable, __file__, str(folder)], check=False)
    left = app.get_state(THREAD)
    assert left is not None
    meta = left.execution_meta
    print(f"It ended with {worker.returncode}. The thread: {left.done}, {meta.status}, next node")
    print(f"{meta.current_node!r}, and the user's message is there: {left.context[0].text()!r}")
    print("Another process goes on:")
    result = app.invoke(None, THREAD)
    print(f"The thread: {result['state'].done}, {result['state'].execution_meta.status}")
    app.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        build(Path(sys.argv[1])).invoke({"messages": ["Send me the book."]}, THREAD)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
