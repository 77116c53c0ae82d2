"""A two-node graph that remembers its user, across two processes, in one SQLite file.

Run it: python examples/quickstart.py. It needs no service and no key.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import SqliteCheckpointer


class Friend(AgentState):
    """What is remembered of a thread, beside its messages."""

    name: str = ""


def listen(state: Friend) -> dict[str, str]:
    """Learn the user's name when it is said."""
    _, said, name = state.context[-1].text().partition("My name is ")
    return {"name": name.rstrip(".")} if said else {}


def answer(state: Friend) -> str:
    """Speak to the user by name."""
    asked = sum(message.role == "user" for message in state.context)
    return f"Hello {state.name or 'stranger'}, you have spoken to me {asked} time(s)."


def say(path: Path, text: str) -> None:
    """Run the graph once, on a thread that is kept in a file."""
    checkpointer: SqliteCheckpointer[Friend] = SqliteCheckpointer(path)
    checkpointer.setup()
    graph = StateGraph(Friend).add_node("listen", listen).add_node("answer", answer)
    graph.set_entry_point("listen").add_edge("listen", "answer")
    app = graph.compile(checkpointer=checkpointer)
    result = app.invoke({"messages": [text]}, {"thread_id": "chat-1", "user_id": "ada"})
    print(f"user:  {text}\nagent: {result['messages'][-1].text()}")
    checkpointer.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        say(Path(sys.argv[1]), "Do you remember me?")
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "agents.db"
            say(file, "My name is Ada.")
            print("-- another process, the same file --", flush=True)
            subprocess.run([sys.executable, __file__, str(file)], check=True)
