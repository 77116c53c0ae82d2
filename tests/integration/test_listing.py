"""What a listing looks at, in a database of many threads: counted from PostgreSQL's own plan."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import programs
import pytest
from databases import PostgresSchema, SqliteFile
from servers.postgres import PostgresEndpoint
from sqlalchemy import event
from sqlalchemy.engine import Engine
from threads import config, state

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer, create_checkpointer

FEW, MANY = 500, 50_000

_FILL = """
    INSERT INTO threads (thread_id, user_id, thread_name, meta, generation, version, last_seq,
                         stop_requested, created_at, updated_at)
    SELECT 't' || n, 'u', 'Chat ' || n,
           jsonb_build_object('tenant', 'acme', 'order', n, 'day', n % 7),
           gen_random_uuid(), 0, 0, false, now(), now() - n * interval '1 second'
    FROM generate_series(1, {count}) AS n
"""

Statement = tuple[str, tuple[Any, ...]]


@pytest.fixture
def statements() -> Iterator[list[Statement]]:
    """Every statement that is sent, with its parameters."""
    seen: list[Statement] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, tuple(parameters)))

    event.listen(Engine, "before_cursor_execute", note)
    yield seen
    event.remove(Engine, "before_cursor_execute", note)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def plan_of(dsn: str, statement: Statement) -> list[dict[str, Any]]:
    """The steps of a plan, as it was carried out."""
    connection = await asyncpg.connect(dsn)
    sql, parameters = statement
    rows = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *parameters)
    await connection.close()
    return list(nodes(json.loads(rows)[0]["Plan"]))


def visited(plan: list[dict[str, Any]]) -> int:
    """How many rows and index entries were looked at."""
    return sum(
        step["Actual Loops"] * (step["Actual Rows"] + step.get("Rows Removed by Filter", 0))
        for step in plan
        if "Scan" in step["Node Type"]
    )


QUERIES: dict[str, dict[str, Any]] = {
    "newest": {"limit": 20},
    "rare metadata": {"filter": {"order": 400}},
    "common metadata": {"filter": {"tenant": "acme"}, "limit": 20},
    "two keys": {"filter": {"order": 400, "tenant": "acme"}},
    "common name": {"search": "chat", "limit": 20},
}


@pytest.mark.parametrize("isolated", [True, False])
async def test_a_listing_looks_at_as_much_in_a_hundred_times_as_many_threads(
    isolated: bool,
    postgres_server: PostgresEndpoint,
    postgres_dsn: str,
    statements: list[Statement],
) -> None:
    database = PostgresSchema(postgres_server, postgres_dsn)
    looked_at: dict[int, dict[str, int]] = {}
    for count in (FEW, MANY):
        await asyncio.to_thread(database.execute, "TRUNCATE threads CASCADE")
        await asyncio.to_thread(database.execute, _FILL.format(count=count))
        await asyncio.to_thread(database.execute, "VACUUM ANALYZE threads")
        looked_at[count] = {}
        kept = PostgresCheckpointer[AgentState](postgres_dsn, enforce_user_isolation=isolated)
        async with kept:
            for name, query in QUERIES.items():
                found = await kept.alist_threads({"user_id": "u"}, **query)
                assert found, name
                plan = await plan_of(postgres_dsn, statements[-1])
                looked_at[count][name] = visited(plan)
                if count == MANY:
                    assert not any(step["Node Type"] == "Seq Scan" for step in plan), name
    for name in QUERIES:
        assert looked_at[MANY][name] <= 2 * max(looked_at[FEW][name], 20), name


async def test_the_tables_of_before_get_their_indexes(
    postgres_server: PostgresEndpoint, empty_postgres: str, tmp_path: Any
) -> None:
    for dsn in (empty_postgres, str(tmp_path / "threads.db")):
        await asyncio.to_thread(programs.alembic, "upgrade", "head", dsn=dsn)
        async with create_checkpointer(dsn) as kept:
            await kept.aput_state(config(thread_meta={"a": 1}), state("a"))
        await asyncio.to_thread(programs.alembic, "downgrade", "0001", dsn=dsn)
        async with create_checkpointer(dsn) as kept:
            await kept.asetup()
            found = await kept.alist_threads({"user_id": "u"}, filter={"a": 1})
            assert [one.thread_id for one in found] == ["t"]
    indexes = SqliteFile(tmp_path / "threads.db").fetch("SELECT name FROM sqlite_master")
    assert ("ix_threads_recent",) in indexes
    assert ("ix_threads_meta",) not in indexes
