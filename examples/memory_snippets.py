"""The three ways to give an agent a long-term memory, as the memory tools' documentation has them.

Run it: python examples/memory_snippets.py. It needs no service and no key, only
`pip install "tenxgraph[qdrant,local]"`: the model says what it is told to, and the embedding is a
small one that works offline. For the real ones write `model="gpt-4o-mini"` and
`embedding=OpenAIEmbedding(model="text-embedding-3-small")`.
"""

import asyncio
import tempfile
from importlib.util import find_spec
from typing import Any

from tenxgraph.core.state import Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage import create_local_qdrant_store
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
from tenxgraph.storage.store import BaseStore
from tenxgraph.storage.store.embedding import WordLlamaEmbedding
from tenxgraph.storage.store.memory_config import (
    AgentMemoryConfig,
    MemoryConfig,
    UserMemoryConfig,
)
from tenxgraph.testing import ScriptedModel

if not all(map(find_spec, ("qdrant_client", "wordllama"))):
    raise SystemExit('This example needs: pip install "tenxgraph[qdrant,local]"')


def scripted(*calls: ToolCall) -> ScriptedModel:
    """A model that calls these tools one after the other, and repeats what the last one told it."""
    return ScriptedModel([*calls, lambda messages, _tools: messages[-1].text()])


def use(name: str, **args: Any) -> ToolCall:
    """A call of a tool, as a model makes it."""
    return ToolCall(id=f"call_{args.get('action', 'search')}", name=name, args=args)


async def ask(agent: ReactAgent[Any], store: BaseStore, user: str, text: str) -> None:
    """Run an agent once, and print its answer."""
    app = agent.compile(checkpointer=InMemoryCheckpointer(), store=store)
    result = await app.ainvoke(
        {"messages": [Message.text_message(text)]},
        config={"thread_id": f"thread of {user}", "user_id": user},
    )
    print(f"  {user}: {text}\n  agent: {result['messages'][-1].text()}")


async def full_control(store: BaseStore) -> None:
    """`memory_tool`: the model searches, stores, updates and deletes."""
    print("memory_tool")
    broken = {"content": "Had a broken zip", "memory_key": "last_issue"}
    agent = ReactAgent(
        model=scripted(
            use("memory_tool", action="store", **broken),
            use("memory_tool", action="search", query="Which trouble was there before?"),
        ),
        tools=[memory_tool],
        system_prompt=[{"role": "system", "content": "Search your memory, store what matters."}],
    )
    await ask(agent, store, "customer_42", "Hello, I'm back!")


async def user_memory(store: BaseStore) -> None:
    """`user_memory_tool`: registered by the configuration, bound to one user, never deletes."""
    print("user_memory_tool")
    agent = ReactAgent(
        model=scripted(
            use("user_memory_tool", action="remember", text="Prefers tea to coffee"),
            use("user_memory_tool", action="search", text="favourite drinks"),
        ),
        memory=MemoryConfig(
            store=store,
            user_memory=UserMemoryConfig(
                enabled=True, memory_type="semantic", category="user_profile", limit=10
            ),
        ),
        system_prompt=[{"role": "system", "content": "You remember details about each user."}],
    )
    await ask(agent, store, "alice", "What do you know about my preferences?")


async def agent_memory(store: BaseStore) -> None:
    """`agent_memory_tool`: what all users share, written by the application."""
    print("agent_memory_tool")
    shared = {"agent_id": "customer-support-v2"}
    await store.astore(shared, "Returns are free for 30 days", "semantic", "policies")
    agent = ReactAgent(
        model=scripted(use("agent_memory_tool", query="sending goods back")),
        memory=MemoryConfig(
            store=store,
            agent_memory=AgentMemoryConfig(
                enabled=True,
                agent_id="customer-support-v2",
                memory_type="semantic",
                category="policies",
                limit=5,
            ),
        ),
        system_prompt=[{"role": "system", "content": "Look up the policies when you answer."}],
    )
    await ask(agent, store, "bob", "What is your return policy?")


async def main(folder: str) -> None:
    """All three, on one store."""
    async with create_local_qdrant_store(path=folder, embedding=WordLlamaEmbedding()) as store:
        for snippet in (full_control, user_memory, agent_memory):
            await snippet(store)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
