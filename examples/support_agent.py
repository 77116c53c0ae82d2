"""A support agent that knows its customer again: in another thread, and in another process.

Run it: python examples/support_agent.py. It needs no service and no key, only
`pip install "tenxgraph[qdrant,local]"`. Conversations are kept in a SQLite file, facts about the
customers in a folder of a local Qdrant. A few rules stand in for the language model.
"""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tenxgraph.core.state import AgentState, Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage import create_local_qdrant_store
from tenxgraph.storage.checkpointer import SqliteCheckpointer
from tenxgraph.storage.store.embedding import WordLlamaEmbedding
from tenxgraph.testing import ScriptedModel

if not all(map(find_spec, ("qdrant_client", "wordllama"))):
    raise SystemExit('This example needs: pip install "tenxgraph[qdrant,local]"')


def use_memory(**args: Any) -> ToolCall:
    """A call of the memory tool."""
    return ToolCall(id=f"call_{args['action']}", name="memory_tool", args=args)


def model(messages: list[Message], _tools: Any) -> str | ToolCall:
    """Store what the customer reports; look up what the customer asks."""
    last = messages[-1]
    if last.role == "user" and last.text().endswith("?"):
        return use_memory(action="search", query=last.text(), limit=1)
    if last.role == "user":
        return use_memory(action="store", content=last.text(), category="issues")
    reply = json.loads(last.text())
    if isinstance(reply, dict):
        return f"Sorry to hear that; I keep it in mind ({reply['status']})."
    if not reply:
        return "I know nothing of you yet. What happened?"
    return f'You told us: "{reply[0]["content"]}"'


def serve(folder: Path, *conversations: tuple[str, str, str]) -> None:
    """Serve customers: who says what, on which thread."""
    store = create_local_qdrant_store(path=folder / "memory", embedding=WordLlamaEmbedding())
    checkpointer: SqliteCheckpointer[AgentState] = SqliteCheckpointer(folder / "threads.db")
    checkpointer.setup()
    agent = ReactAgent(ScriptedModel(model), tools=[memory_tool])
    app = agent.compile(checkpointer=checkpointer, store=store)
    for user, thread, text in conversations:
        result = app.invoke(text, {"thread_id": thread, "user_id": user})
        print(f"[{thread}] {user}: {text}")
        print(f"[{thread}] agent: {result['messages'][-1].text()}")
    app.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(
            Path(sys.argv[1]),
            ("maria", "thread 3", "Which fragile goods came broken?"),
            ("peter", "thread 4", "Which fragile goods came broken?"),
        )
    else:
        with tempfile.TemporaryDirectory() as directory:
            serve(
                Path(directory),
                ("maria", "thread 1", "The glass of my lamp was shattered when it arrived."),
                ("maria", "thread 1", "My invoice has the wrong address."),
                ("maria", "thread 2", "What was wrong with the bill?"),
            )
            print("-- another process, the same folder --", flush=True)
            subprocess.run([sys.executable, __file__, directory], check=True)
