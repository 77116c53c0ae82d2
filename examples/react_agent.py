"""An agent with long-term memory, as the documentation prints it.

Run it: python examples/react_agent.py. It needs the extras `openai` and `qdrant`, and no key: with
`OPENAI_API_KEY` set it asks OpenAI; without, a small server on this machine that speaks the same
protocol and says what it is told to.
"""

import asyncio
import os
import tempfile
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from tenxgraph.core.state import Message
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage import create_local_qdrant_store
from tenxgraph.storage.store.embedding import OpenAIEmbedding
from tenxgraph.testing import OpenAIServer

if not all(map(find_spec, ("openai", "qdrant_client"))):
    raise SystemExit('This example needs: pip install "tenxgraph[openai,qdrant]"')

REMEMBER = {"action": "store", "content": "Bought a red tent.", "memory_key": "last_purchase"}
SCRIPT: list[Any] = [
    {"tool_calls": [{"name": "memory_tool", "arguments": REMEMBER}]},
    "I will remember your red tent.",
    {"tool_calls": [{"name": "memory_tool", "arguments": {"query": "purchase"}}]},
    lambda body: f"I looked it up: {body['messages'][-1]['content']}",
]


async def main(folder: str) -> None:
    """Two conversations of one customer."""
    store = create_local_qdrant_store(
        path=folder,
        embedding=OpenAIEmbedding(model="text-embedding-3-small"),
    )
    agent = ReactAgent(
        model="gpt-4o-mini",
        tools=[memory_tool],
        system_prompt="You are a customer service agent. Search your memory of the user first, "
        "and store lasting facts about them in it.",
    )
    async with agent.compile(store=store) as app:
        for thread, text in (("t1", "I bought a red tent."), ("t2", "What did I buy?")):
            result = await app.ainvoke(
                {"messages": [Message.text_message(text)]},
                config={"thread_id": thread, "user_id": "customer_42"},
            )
            print(f"user:  {text}\nagent: {result['messages'][-1].text()}")


if __name__ == "__main__":
    with ExitStack() as closing:
        if "OPENAI_API_KEY" not in os.environ:
            server = closing.enter_context(OpenAIServer(SCRIPT))
            os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.base_url}
        asyncio.run(main(closing.enter_context(tempfile.TemporaryDirectory())))
