"""The code of the spec documents, as it is printed there, import paths and all."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import programs
import pytest
from servers.postgres import PostgresEndpoint
from servers.redis import RedisServer

from tenxgraph.testing import OpenAIServer

# A snippet may use `await` at the top level, as in a notebook.
RUNNER = """
import ast, asyncio, inspect, sys
source = open(sys.argv[1]).read()
code = compile(source, sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, names))
else:
    exec(code, names)
"""

POSTGRES = """
from tenxgraph.storage.checkpointer import PgCheckpointer

checkpointer = PgCheckpointer(
    postgres_dsn="postgresql://user:password@localhost:5432/agents",
    redis_url="redis://localhost:6379/0",
    cache_ttl=3600,             # seconds, default 86400  
    state_history_limit=20,     # snapshots per thread, default 20
)

checkpointer.setup()  # create tables and apply migrations, once at startup

app = agent.compile(checkpointer=checkpointer)
"""  # noqa: W291 - as it is printed

STORE = """
from tenxgraph.storage.store import OpenAIEmbedding, QdrantStore

store = QdrantStore(
    embedding=OpenAIEmbedding(),   # defaults to text-embedding-3-small
    path="./qdrant_data",          # local Qdrant; host/port or url + api_key for remote
)

app = agent.compile(checkpointer=checkpointer, store=store)
"""

IN_MEMORY = """
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
checkpointer = InMemoryCheckpointer()
"""

SQLITE = """
from tenxgraph.storage.checkpointer import SqliteCheckpointer
checkpointer = SqliteCheckpointer("./agent_state.db")
"""

MEMORY_TOOL = """
# pip install "10xgraph[openai,qdrant]"
from tenxgraph.core.state import Message
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage import create_local_qdrant_store
from tenxgraph.storage.store.embedding import OpenAIEmbedding

# Set up the memory store with OpenAI embeddings
store = create_local_qdrant_store(
    path="./memory_db",
    embedding=OpenAIEmbedding(model="text-embedding-3-small"),
)

# Create an agent with the memory tool
agent = ReactAgent(
    model="gpt-4o-mini",
    tools=[memory_tool],
    system_prompt=[{
        "role": "system",
        "content": (
            "You are a helpful customer service agent with long-term memory. "
            "At the start of each conversation, search your memory for any previous "
            "interactions with this user. Store important facts about the user, "
            "their preferences, and previous issues they have had."
        ),
    }],
)

# Compile and run
app = agent.compile(store=store)

# The agent will have access to memory_tool and can call it with any action
result = await app.ainvoke(
    {"messages": [Message.text_message("Hello, I'm back!")]},
    config={"thread_id": "t1", "user_id": "customer_42"},
)

# The agent may have called memory_tool automatically to search for past interactions
print(result["messages"][-1].text())
"""

USER_MEMORY = """
# pip install "10xgraph[openai,qdrant]"
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.store.memory_config import MemoryConfig, UserMemoryConfig
from tenxgraph.storage import create_local_qdrant_store
from tenxgraph.storage.store.embedding import OpenAIEmbedding

store = create_local_qdrant_store(
    path="./memory_db",
    embedding=OpenAIEmbedding(model="text-embedding-3-small"),
)

agent = ReactAgent(
    model="gpt-4o-mini",
    memory=MemoryConfig(
        store=store,
        user_memory=UserMemoryConfig(
            enabled=True,
            memory_type="semantic",  # e.g. facts and preferences
            category="user_profile",
            limit=10,  # return up to 10 results per search
        ),
    ),
    system_prompt=[{
        "role": "system",
        "content": "You remember details about each user. Use user_memory_tool to search and remember key facts.",
    }],
)

app = agent.compile(store=store)
"""  # noqa: E501 - as it is printed

USER_MEMORY_CALL = """
from tenxgraph.core.state import Message
result = await app.ainvoke(
    {"messages": [Message.text_message("What do you know about my preferences?")]},
    config={"thread_id": "t1", "user_id": "alice"},  # user_id determines memory scope
)
"""

AGENT_MEMORY = """
# pip install "10xgraph[openai,qdrant]"
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.store.memory_config import MemoryConfig, AgentMemoryConfig
from tenxgraph.storage import create_local_qdrant_store
from tenxgraph.storage.store.embedding import OpenAIEmbedding

store = create_local_qdrant_store(
    path="./memory_db",
    embedding=OpenAIEmbedding(model="text-embedding-3-small"),
)

agent = ReactAgent(
    model="gpt-4o-mini",
    memory=MemoryConfig(
        store=store,
        agent_memory=AgentMemoryConfig(
            enabled=True,
            agent_id="customer-support-v2",  # all instances of this agent share this memory
            memory_type="semantic",
            category="policies",
            limit=5,
        ),
    ),
    system_prompt=[{
        "role": "system",
        "content": "You have access to company policies. Use agent_memory_tool to look them up when answering customer questions.",
    }],
)

app = agent.compile(store=store)
"""  # noqa: E501 - as it is printed

AGENT_MEMORY_CALL = """
from tenxgraph.core.state import Message
result = await app.ainvoke(
    {"messages": [Message.text_message("What is your return policy?")]},
    config={"thread_id": "t1", "user_id": "alice"},
)
# The agent can search agent memory (policies) but cannot modify it
"""

LOCAL_QDRANT = """
from tenxgraph.storage import create_local_qdrant_store
from tenxgraph.storage.store.embedding import OpenAIEmbedding

store = create_local_qdrant_store(
    path="./memory_db",
    embedding=OpenAIEmbedding(model="text-embedding-3-small"),
)
"""

MEM0 = """
from tenxgraph.storage import Mem0Store

store = Mem0Store(config=mem0_config)  # a mem0 MemoryConfig or an equivalent dict
"""

MEM0_CONFIG_DICT = """
import os
os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": "./mem0"}
mem0_config = {
    "vector_store": {"provider": "qdrant", "config": {"path": "./mem0/qdrant"}},
    "history_db_path": "./mem0/history.db",
}
"""

MEM0_CONFIG_OBJECT = (
    MEM0_CONFIG_DICT
    + """
from mem0.configs.base import MemoryConfig
mem0_config = MemoryConfig(**mem0_config)
"""
)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def run(folder: Path, server: OpenAIServer, *snippets: str) -> str:
    """Run snippets one after the other, as one program in a folder of its own."""
    program = folder / "snippet.py"
    program.write_text("\n".join(snippets))
    openai = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUNNER), str(program)],
        cwd=folder,
        env=programs.environment(openai),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def use(name: str, **arguments: object) -> dict[str, object]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def tools_told(server: OpenAIServer) -> list[str]:
    body = server.requests_to("/v1/chat/completions")[0].body
    return [one["function"]["name"] for one in body["tools"]]


def test_the_complete_example_of_memory_tool(tmp_path: Path, server: OpenAIServer) -> None:
    store = use("memory_tool", action="store", content="had a broken zip", memory_key="issue")
    server.add_answers(use("memory_tool", query="earlier"), store, "Welcome!")
    assert run(tmp_path, server, MEMORY_TOOL) == "Welcome!\n"
    assert tools_told(server) == ["memory_tool"]
    first = server.requests_to("/v1/chat/completions")[0].body["messages"]
    assert [one["role"] for one in first] == ["system", "user"]
    # Another process, another conversation: the fact is there.
    server.add_answers(
        use("memory_tool", query="broken zip"),
        lambda body: f"You told me: {body['messages'][-1]['content']}",
    )
    assert "had a broken zip" in run(tmp_path, server, MEMORY_TOOL)


def test_user_memory_by_configuration(tmp_path: Path, server: OpenAIServer) -> None:
    remember = use("user_memory_tool", action="remember", text="prefers tea")
    search = use("user_memory_tool", text="preferences")
    server.add_answers(remember, search, lambda body: body["messages"][-1]["content"])
    program = (USER_MEMORY, USER_MEMORY_CALL, 'print(result["messages"][-1].text())')
    assert "prefers tea" in run(tmp_path, server, *program)
    assert tools_told(server) == ["user_memory_tool"]


def test_agent_memory_by_configuration(tmp_path: Path, server: OpenAIServer) -> None:
    by_the_application = """
await store.astore(
    {"agent_id": "customer-support-v2"}, "Returns are free.", "semantic", "policies"
)
"""
    search = use("agent_memory_tool", query="return policy")
    server.add_answers(search, lambda body: body["messages"][-1]["content"])
    program = (AGENT_MEMORY, by_the_application, AGENT_MEMORY_CALL)
    told = run(tmp_path, server, *program, 'print(result["messages"][-1].text())')
    assert "Returns are free." in told
    assert tools_told(server) == ["user_memory_tool", "agent_memory_tool"]


@pytest.mark.parametrize(
    "snippets",
    [(LOCAL_QDRANT,), (MEM0_CONFIG_DICT, MEM0), (MEM0_CONFIG_OBJECT, MEM0)],
    ids=["qdrant", "mem0-dict", "mem0-object"],
)
def test_a_memory_tool_on_each_vector_store(
    tmp_path: Path, server: OpenAIServer, snippets: tuple[str, ...]
) -> None:
    agent = """
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.prebuilt.tools import memory_tool
app = ReactAgent("gpt-4o-mini", tools=[memory_tool]).compile(store=store)
config = {"thread_id": "t1", "user_id": "alice"}
print((await app.ainvoke("What do I drink?", config))["messages"][-1].text())
await app.aclose()
"""
    server.add_answers(
        use("memory_tool", action="store", content="drinks tea", memory_key="drink"),
        use("memory_tool", query="drinks"),
        lambda body: body["messages"][-1]["content"],
    )
    assert "drinks tea" in run(tmp_path, server, *snippets, agent)


@pytest.mark.parametrize("checkpointer", [IN_MEMORY, SQLITE + "checkpointer.setup()\n"])
def test_the_small_checkpointers(tmp_path: Path, server: OpenAIServer, checkpointer: str) -> None:
    server.add_answers("Hello!")
    agent = 'from tenxgraph.prebuilt.agent import ReactAgent\nagent = ReactAgent("gpt-4o-mini")\n'
    call = 'print((await app.ainvoke("hi", {"thread_id": "t"}))["messages"][-1].text())'
    assert run(tmp_path, server, agent, checkpointer, STORE, call) == "Hello!\n"


def test_postgres_and_redis_and_a_store(
    tmp_path: Path,
    server: OpenAIServer,
    postgres_server: PostgresEndpoint,
    empty_postgres: str,
    redis_server: RedisServer,
) -> None:
    agent = 'from tenxgraph.prebuilt.agent import ReactAgent\nagent = ReactAgent("gpt-4o-mini")\n'
    call = """
config = {"thread_id": "t", "user_id": "alice"}
print((await app.ainvoke("hi", config))["messages"][-1].text())
"""
    ours = POSTGRES.replace("postgresql://user:password@localhost:5432/agents", empty_postgres)
    ours = ours.replace("redis://localhost:6379/0", redis_server.url())
    for answer in ("Hello!", "Hello again!"):
        server.add_answers(answer)
        assert run(tmp_path, server, agent, ours, STORE, call) == f"{answer}\n"
    rows = postgres_server.fetch(
        "SELECT version FROM threads", database=empty_postgres.rpartition("/")[2]
    )
    assert [row["version"] for row in rows] == [4]
