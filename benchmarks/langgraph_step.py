"""The same step through langgraph's checkpointers: two more messages on a thread of some length.

    pip install langgraph-checkpoint-postgres langgraph-checkpoint-sqlite psycopg[binary]

One step is what its loop does for one node that answers: `aput` of a checkpoint whose `messages`
channel has a new version, with the whole list as its value.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from figures import Prepared, Step
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from servers import PostgresServer


class LangGraphSteps:
    """Threads of given lengths in langgraph's savers."""

    @staticmethod
    @asynccontextmanager
    async def postgres(
        server: PostgresServer, lengths: tuple[int, ...], text: str
    ) -> AsyncIterator[dict[str, Step]]:
        dsn = server.create_database(f"langgraph_{uuid4().hex[:8]}")
        async with AsyncPostgresSaver.from_conn_string(dsn) as saver:
            await saver.setup()
            yield {f"langgraph {n:,}": _step(saver, n, text) for n in lengths}

    @staticmethod
    @asynccontextmanager
    async def sqlite(
        path: Path, lengths: tuple[int, ...], text: str
    ) -> AsyncIterator[dict[str, Step]]:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            await saver.setup()
            # As durable as what it is compared with.
            await saver.conn.execute("PRAGMA synchronous=FULL")
            yield {f"langgraph {n:,}": _step(saver, n, text) for n in lengths}


def _step(saver: Any, length: int, text: str) -> Step:
    messages: list[Any] = [HumanMessage(text, id=uuid4().hex) for _ in range(length)]
    config: dict[str, Any] = {
        "configurable": {"thread_id": f"thread-{length}", "checkpoint_ns": ""}
    }
    version: str | None = None

    def prepare() -> None:
        nonlocal messages
        new = [HumanMessage(text, id=uuid4().hex), AIMessage(text, id=uuid4().hex)]
        messages = [*messages, *new]

    async def step() -> None:
        nonlocal config, version
        version = saver.get_next_version(version, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = {"messages": version}
        metadata = {"source": "loop", "step": 1, "parents": {}}
        config = await saver.aput(config, checkpoint, metadata, {"messages": version})

    return Prepared(prepare, step)
