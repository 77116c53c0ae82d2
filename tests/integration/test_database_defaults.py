"""Databases whose own defaults, or whose tables, somebody has changed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from servers import PgBouncer
from servers.postgres import PostgresEndpoint
from sqlalchemy.ext.asyncio import create_async_engine
from threads import config, grown, message, state, texts
from wire import WireTap

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer, ToolExecution

Postgres = PostgresCheckpointer[AgentState]

needs_pgbouncer = pytest.mark.skipif(
    not PgBouncer.available(), reason="pgbouncer is not installed: apt-get install pgbouncer"
)

DEFAULTS = {
    "serializable": "default_transaction_isolation = 'serializable'",
    "repeatable read": "default_transaction_isolation = 'repeatable read'",
    "read only": "default_transaction_read_only = on",
}


@pytest.fixture(params=DEFAULTS)
def strict_dsn(
    request: pytest.FixtureRequest, postgres_server: PostgresEndpoint, postgres_dsn: str
) -> str:
    """A database with other defaults than PostgreSQL's."""
    name = postgres_dsn.rpartition("/")[2]
    postgres_server.execute(f"ALTER DATABASE {name} SET {DEFAULTS[request.param]}")
    return postgres_dsn


@pytest.fixture(params=["session", "transaction"])
def pooler(
    request: pytest.FixtureRequest, postgres_server: PostgresEndpoint
) -> Iterator[PgBouncer]:
    """A pooler that refuses the settings of a connection."""
    with PgBouncer(postgres_server, request.param, 10) as made:
        yield made


async def write_sixty(kept: Postgres) -> None:
    """Write to sixty unrelated threads at once, and to one thread all that there is to write."""

    async def work(thread_id: str) -> None:
        mine = config(thread_id)
        await kept.aput_messages(config(thread_id), [message("beside")])
        for turn in range(3):
            read = await kept.aget_state(mine)
            await kept.aput_state(mine, grown(read, f"{turn}"))
            await kept.aput_messages(config(thread_id), [message("beside"), message(f"{turn} b")])
            tool = ToolExecution(message_id="0", position=turn, tool_name="f", status="finished")
            await kept.aput_tool_result(mine, tool)

    await asyncio.gather(*(work(f"{n}") for n in range(60)))
    for number in range(60):
        assert texts(await kept.aget_state(config(f"{number}"))) == ["0", "1", "2"]
    mine = config("0")
    read = await kept.aget_state(mine)
    await kept.aput_state(mine, grown(read, "3", "4"))
    assert len([line async for line in kept.aexport_thread(mine)]) == 1 + 9 + 4 + 3
    assert await kept.aclean_thread(mine)


async def test_unrelated_writes_never_fail(strict_dsn: str) -> None:
    async with Postgres(strict_dsn) as kept:
        await write_sixty(kept)


async def test_unrelated_writes_through_an_engine_of_the_hosts_never_fail(strict_dsn: str) -> None:
    url = strict_dsn.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url, pool_size=20)
    await write_sixty(Postgres(engine=engine))
    await engine.dispose()


@pytest.mark.pgbouncer
@needs_pgbouncer
async def test_unrelated_writes_through_a_pooler_never_fail(
    strict_dsn: str, pooler: PgBouncer
) -> None:
    dsn = pooler.dsn(strict_dsn.rpartition("/")[2])
    transactions = "pool_mode = transaction" in pooler._ini.read_text()
    async with Postgres(dsn, pgbouncer=transactions, pool_size=5, max_overflow=0) as kept:
        await write_sixty(kept)


async def test_setup_where_the_default_is_read_only(
    postgres_server: PostgresEndpoint, empty_postgres: str
) -> None:
    name = empty_postgres.rpartition("/")[2]
    postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with Postgres(empty_postgres) as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))


async def test_the_write_stays_one_round_trip(
    postgres_server: PostgresEndpoint, strict_dsn: str
) -> None:
    with WireTap(postgres_server.dsn()) as tap:
        async with Postgres(tap.through(strict_dsn), pool_size=1, max_overflow=0) as kept:
            mine = config()
            written = await kept.aput_state(mine, state("a"))
            written = await kept.aput_state(mine, grown(written, "b"))
            before = tap.round_trips
            await kept.aput_state(mine, grown(written, "c"))
            assert tap.round_trips - before == 1


DDL = {
    "a returned column": "ALTER TABLE states ALTER COLUMN base_seq TYPE integer",
    "columns of the thread": (
        "ALTER TABLE threads ALTER COLUMN version TYPE integer, ALTER COLUMN last_seq TYPE integer"
    ),
    "a message's number": "ALTER TABLE messages ALTER COLUMN seq TYPE integer",
    "the ledger": "ALTER TABLE tool_executions ALTER COLUMN position TYPE integer",
}


@pytest.fixture(params=["ours", "the host's"])
async def opened(request: pytest.FixtureRequest, postgres_dsn: str) -> AsyncIterator[Postgres]:
    """A checkpointer with connections of its own, and one on an engine of the host's."""
    if request.param == "ours":
        async with Postgres(postgres_dsn) as kept:
            yield kept
        return
    url = postgres_dsn.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url, pool_size=10)
    yield Postgres(engine=engine)
    await engine.dispose()


def calls(kept: Postgres) -> dict[str, Callable[[int], Any]]:
    """Reads and writes, in autocommit and in transactions, each of one thread."""

    async def edit(n: int) -> None:
        mine = config(f"{n}")
        read = await kept.aget_state(mine)
        assert read is not None
        read.context = [one.model_copy(update={"metadata": {"n": n}}) for one in read.context]
        await kept.aput_state(mine, read)

    def tool(n: int) -> Any:
        ran = ToolExecution(message_id="a", position=0, tool_name="f", status="finished")
        return kept.aput_tool_result(config(f"{n}"), ran)

    return {
        "read": lambda n: kept.aget_state(config(f"{n}")),
        "list": lambda n: kept.alist_messages(config(f"{n}")),
        "append": lambda n: kept.aput_state(config(f"{n}"), state(f"more {n}")),
        "edit": edit,
        "tool": tool,
        "tools": lambda n: kept.alist_tool_results(config(f"{n}")),
    }


@pytest.mark.parametrize("ddl", DDL)
async def test_ddl_of_another_process_fails_no_call(
    ddl: str, opened: Postgres, postgres_server: PostgresEndpoint, postgres_dsn: str
) -> None:
    work = calls(opened)
    for call in work.values():
        await asyncio.gather(*(opened.aput_state(config(f"{n}"), state("a")) for n in range(10)))
        await asyncio.gather(*(call(n) for n in range(10)))
    name = postgres_dsn.rpartition("/")[2]
    await asyncio.to_thread(postgres_server.execute, DDL[ddl], database=name)
    for call in work.values():
        await asyncio.gather(*(call(n) for n in range(10)))
