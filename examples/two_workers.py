"""Two workers get a message for the same conversation at the same moment: one of them wins.

Run it: python examples/two_workers.py. The loser has left nothing in the thread, and tries again.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import SqliteCheckpointer, StaleStateError

CONFIG = {"thread_id": "chat-1", "user_id": "ada"}


def answer(state: AgentState) -> str:
    """Count what was said so far."""
    return f"That was message {sum(one.role == 'user' for one in state.context)}."


def worker(path: Path) -> Any:
    """A worker of its own: its checkpointer shares only the file with the other's."""
    graph = StateGraph().add_node("answer", answer).set_entry_point("answer")
    return graph.compile(checkpointer=SqliteCheckpointer(path))


async def main(path: Path) -> None:
    """Send two messages at once, and the loser's once more."""
    workers = {"first": worker(path), "second": worker(path)}
    await workers["first"].checkpointer.asetup()
    results = await asyncio.gather(
        *(app.ainvoke(f"hello from the {name}", CONFIG) for name, app in workers.items()),
        return_exceptions=True,
    )
    for (name, app), result in zip(workers.items(), results, strict=True):
        if isinstance(result, StaleStateError):
            print(f"the {name} lost: expected version {result.expected_version}")
            await app.ainvoke(f"hello from the {name}", CONFIG)
        else:
            print(f"the {name} won")
    state = await workers["first"].aget_state(CONFIG)
    for message in state.context:
        print(f"  {message.role}: {message.text()}")
    for app in workers.values():
        await app.aclose()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "threads.db"))
