"""Two hundred runs at once in one process, on one small pool of connections."""

import asyncio
from typing import Any

from graphs import config, said
from servers.postgres import PostgresEndpoint

from tenxgraph.core.state import AgentState, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.checkpointer import PostgresCheckpointer
from tenxgraph.testing import ScriptedModel

RUNS = 200


class Crowd:
    """Tools and models that wait until all runs have come to them."""

    def __init__(self) -> None:
        self.in_models = asyncio.Barrier(RUNS + 1)
        self.in_tools = asyncio.Barrier(RUNS + 1)
        self.going_on = asyncio.Barrier(RUNS + 1)

    async def model(self, messages: Any, tools: Any) -> Any:
        if messages[-1].role == "tool":
            return "done"
        await self.in_models.wait()
        await self.going_on.wait()
        return {"role": "assistant", "tool_calls": [_CALL]}

    async def work(self) -> str:
        """Work."""
        await self.in_tools.wait()
        await self.going_on.wait()
        return "worked"


_CALL = {"id": "same", "type": "function", "function": {"name": "work", "arguments": "{}"}}


def at_work(server: PostgresEndpoint, database: str) -> list[str]:
    """Connections of the database that are in a transaction or a statement."""
    rows = server.fetch(
        "SELECT state, query FROM pg_stat_activity WHERE datname = $1 AND state <> 'idle'", database
    )
    return [f"{row['state']}: {row['query']}" for row in rows]


async def test_no_connection_is_held_while_nodes_and_tools_wait(
    postgres_server: PostgresEndpoint, postgres_dsn: str
) -> None:
    crowd, database = Crowd(), postgres_dsn.rpartition("/")[2]
    checkpointer: PostgresCheckpointer[AgentState] = PostgresCheckpointer(
        postgres_dsn, pool_size=5, max_overflow=0, pool_timeout=20
    )
    app = ReactAgent(crowd.model, [crowd.work]).compile(checkpointer)
    runs = [asyncio.create_task(app.ainvoke("go", config(f"t{i}"))) for i in range(RUNS)]
    for waiting in (crowd.in_models, crowd.in_tools):
        await asyncio.wait_for(waiting.wait(), 30)
        assert at_work(postgres_server, database) == []
        # The pool is free for others while two hundred runs wait.
        await asyncio.wait_for(checkpointer.aget_state(config("another")), 5)
        await crowd.going_on.wait()
    results = await asyncio.gather(*runs)
    assert {tuple(said(one["messages"])) for one in results} == {
        ("assistant: ", "tool: worked", "assistant: done")
    }
    connections = postgres_server.fetch(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = $1", database
    )
    assert connections[0]["n"] <= 5
    await app.aclose()


async def test_a_scripted_model_serves_many_runs_at_once(postgres_dsn: str) -> None:
    def script(messages: Any, _tools: Any) -> Any:
        return "done" if messages[-1].role == "tool" else ToolCall(id="", name="slow", args={})

    def slow() -> str:
        return "slept"

    checkpointer: PostgresCheckpointer[AgentState] = PostgresCheckpointer(postgres_dsn)
    app = ReactAgent(ScriptedModel(script), [slow]).compile(checkpointer)
    results = await asyncio.gather(*(app.ainvoke("go", config(f"t{i}")) for i in range(RUNS)))
    assert all(one["state"].execution_meta.status == "completed" for one in results)
    await app.aclose()
