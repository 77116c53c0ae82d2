"""The durable write: flat in the length of the thread, one round trip, close to the bare driver.

    python benchmarks/durable_write.py [--rounds 200]

Starts its own PostgreSQL, as durable as it is by default, reached over TCP on loopback. Every
ratio is between steps that were taken in turn in one run; in two parts, as a step of another
library that takes 30 ms of computing leaves cold caches to whatever comes behind it.
"""

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import asyncpg  # type: ignore[import-untyped]
from figures import Prepared, Step, check, finish, medians
from langgraph_step import LangGraphSteps
from servers import PostgresServer
from sqlalchemy import event

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import (
    BaseCheckpointer,
    PostgresCheckpointer,
    SqliteCheckpointer,
)

LENGTHS = (10, 100, 1_000, 5_000)
TEXT = "x" * 500


def two_messages() -> list[Message]:
    """What one turn adds: a question and an answer of 500 characters each."""
    return [Message.text_message(TEXT), Message.assistant(TEXT)]


class Growing:
    """A thread of about a given length, and the step that writes one more turn to it."""

    def __init__(self, checkpointer: BaseCheckpointer[Any], length: int) -> None:
        self._checkpointer = checkpointer
        self._config: dict[str, Any] = {"thread_id": f"thread-{length}", "user_id": "bench"}
        self._state = AgentState()
        self._length = length

    async def fill(self) -> "Growing":
        while len(self._state.context) < self._length:
            room = self._length - len(self._state.context)
            self._state.context += two_messages() * 1 if room < 500 else _many(500)
            await self._checkpointer.aput_state(self._config, self._state)
        return self

    def prepare(self) -> None:
        """Add a turn: what is measured is its write, as the bare row is there beforehand, too."""
        context = [*self._state.context, *two_messages()]
        self._state = self._state.model_copy(update={"context": context})

    async def step(self) -> None:
        """Write the turn. The length stays about the same: the cost at a length is measured."""
        await self._checkpointer.aput_state(self._config, self._state)


def _many(count: int) -> list[Message]:
    return [Message.text_message(TEXT) for _ in range(count)]


async def growing(checkpointer: BaseCheckpointer[Any]) -> dict[str, Step]:
    steps: dict[str, Step] = {}
    for length in LENGTHS:
        thread = await Growing(checkpointer, length).fill()
        steps[f"{length:,} messages"] = Prepared(thread.prepare, thread.step)
    return steps


async def bare_postgres(dsn: str) -> tuple[asyncpg.Connection, Step]:
    """One plain single-row INSERT of the same text, through the driver alone."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, data json)")
    row = json.dumps([message.model_dump(mode="json") for message in two_messages()])

    async def step() -> None:
        await connection.execute("INSERT INTO bare (data) VALUES ($1)", row)

    return connection, step


def bare_sqlite(path: Path) -> tuple[ThreadPoolExecutor, Step]:
    """One sqlite3 transaction of the same rows in one worker thread, `synchronous=FULL`."""
    thread = ThreadPoolExecutor(max_workers=1)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE states (id integer PRIMARY KEY, data text)")
    connection.execute(
        "CREATE TABLE messages (thread text, seq integer, data text, PRIMARY KEY (thread, seq))"
    )
    rows = [message.model_dump_json() for message in two_messages()]
    seq = iter(range(10**9))

    def write() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO states (data) VALUES (?)", ("{}",))
        connection.executemany(
            "INSERT INTO messages VALUES ('t', ?, ?)", [(next(seq), row) for row in rows]
        )
        connection.execute("COMMIT")

    async def step() -> None:
        await asyncio.wrap_future(thread.submit(write))

    return thread, step


async def count_statements(checkpointer: PostgresCheckpointer[Any], step: Step) -> int:
    """How many statements one write sends; each is one round trip."""
    engine = await checkpointer._backend._postgres.engine()  # type: ignore[attr-defined]
    sent: list[str] = []

    def listen(*arguments: Any) -> None:
        sent.append(arguments[2])

    event.listen(engine.sync_engine, "before_cursor_execute", listen)
    if isinstance(step, Prepared):
        step.prepare()
    await step()
    event.remove(engine.sync_engine, "before_cursor_execute", listen)
    return len(sent)


async def on_postgres(server: PostgresServer, rounds: int) -> None:
    print("\nPostgreSQL over TCP on loopback")
    dsn = server.create_database(f"bench_{uuid4().hex[:8]}")
    async with PostgresCheckpointer[Any](dsn) as checkpointer:
        await checkpointer.asetup()
        ours = await growing(checkpointer)
        connection, bare = await bare_postgres(dsn)
        taken = await medians({"bare INSERT": bare, **ours}, rounds)
        await connection.close()
        async with LangGraphSteps.postgres(server, LENGTHS, TEXT) as theirs:
            beside = await medians({**ours, **theirs}, rounds)
        statements = await count_statements(checkpointer, ours["10 messages"])
    report(taken, beside, "bare INSERT")
    check(
        "one write at 5,000 messages / at 10", taken["5,000 messages"] / taken["10 messages"], 1.3
    )
    check("one write / one bare asyncpg INSERT", taken["10 messages"] / taken["bare INSERT"], 2.5)
    check("statements of one write", statements, 1)
    for length in LENGTHS:
        ratio = beside[f"{length:,} messages"] / beside[f"langgraph {length:,}"]
        check(f"one write / langgraph-checkpoint-postgres at {length:,}", ratio, 1.0)


async def on_sqlite(folder: Path, rounds: int) -> None:
    print("\nSQLite, synchronous=FULL")
    async with SqliteCheckpointer[Any](folder / "ours.db") as checkpointer:
        await checkpointer.asetup()
        ours = await growing(checkpointer)
        thread, bare = bare_sqlite(folder / "bare.db")
        taken = await medians({"bare transaction": bare, **ours}, rounds)
        thread.shutdown()
        async with LangGraphSteps.sqlite(folder / "theirs.db", LENGTHS, TEXT) as theirs:
            beside = await medians({**ours, **theirs}, rounds)
    report(taken, beside, "bare transaction")
    check(
        "one write at 5,000 messages / at 10", taken["5,000 messages"] / taken["10 messages"], 1.3
    )
    check("one write / one bare transaction", taken["10 messages"] / taken["bare transaction"], 3.0)
    for length in LENGTHS:
        ratio = beside[f"{length:,} messages"] / beside[f"langgraph {length:,}"]
        check(f"one write / langgraph-checkpoint-sqlite at {length:,}", ratio, 1.0)


def report(taken: dict[str, float], beside: dict[str, float], bare: str) -> None:
    """The medians themselves, in milliseconds."""
    print(f"  {bare}: {taken[bare]:.3f} ms")
    for length in LENGTHS:
        alone, ours = taken[f"{length:,} messages"], beside[f"{length:,} messages"]
        theirs = beside[f"langgraph {length:,}"]
        print(f"  at {length:>5,} messages: {alone:.3f} ms", end="; ")
        print(f"in turn with langgraph: {ours:.3f} ms, langgraph {theirs:.3f} ms")


async def storage(server: PostgresServer, folder: Path) -> None:
    """Bytes of a thread of 1,000 messages with 20 kept snapshots, over those of its messages."""
    print("\nStorage: 1,000 messages, 20 kept snapshots")
    dsn = server.create_database(f"size_{uuid4().hex[:8]}")
    plain = 0
    path = folder / "size.db"
    for checkpointer in (SqliteCheckpointer[Any](path), PostgresCheckpointer[Any](dsn)):
        async with checkpointer:
            await checkpointer.asetup()
            empty = _bytes(server, dsn, path)
            state, config = AgentState(), {"thread_id": "t", "user_id": "u"}
            for _ in range(500):
                state.context += two_messages()
                await checkpointer.aput_state(config, state)
            assert len(await checkpointer.alist_states(config)) == 20
            plain = sum(
                len(message.model_dump_json(exclude_none=True)) for message in state.context
            )
        taken = _bytes(server, dsn, path) - empty
        name = "sqlite" if isinstance(checkpointer, SqliteCheckpointer) else "postgres"
        check(f"{name}: bytes on disk / bytes of the messages as JSON", taken / plain, 2.0)


def _bytes(server: PostgresServer, dsn: str, path: Path) -> int:
    """The size of both databases, with nothing waiting to be cleaned up."""
    database = dsn.rpartition("/")[2]
    tables = "threads", "states", "messages", "tool_executions"
    total = 0
    if server.fetch("SELECT to_regclass('threads') AS there", database=database)[0]["there"]:
        server.execute("VACUUM FULL", database=database)
        for table in tables:
            row = server.fetch(
                f"SELECT pg_total_relation_size('{table}') AS size", database=database
            )
            total += row[0]["size"]
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return total + path.stat().st_size


def imports(runs: int = 7) -> None:
    """How long importing the checkpointers takes, over SQLAlchemy and pydantic alone."""
    print("\nImport")

    def best(code: str) -> float:
        taken = []
        for _ in range(runs):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            taken.append(time.perf_counter() - started)
        return min(taken)

    empty = best("pass")
    alone = best("import sqlalchemy, pydantic") - empty
    ours = best("import tenxgraph.storage.checkpointer") - empty
    print(f"  sqlalchemy and pydantic {alone * 1000:.0f} ms, tenxgraph {ours * 1000:.0f} ms")
    check("import tenxgraph.storage.checkpointer / import sqlalchemy, pydantic", ours / alone, 1.5)


async def main(rounds: int) -> None:
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        await on_postgres(server, rounds)
        await on_sqlite(Path(folder), rounds)
        await storage(server, Path(folder))
    imports()
    finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    asyncio.run(main(parser.parse_args().rounds))
