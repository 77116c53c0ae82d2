"""What a write and a read ask of PostgreSQL, counted on the wire and in SQLAlchemy."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from servers.postgres import PostgresEndpoint
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from threads import config, grown, message, state
from wire import WireTap

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer

Postgres = PostgresCheckpointer[AgentState]


@pytest.fixture
def tap(postgres_server: PostgresEndpoint) -> Iterator[WireTap]:
    with WireTap(postgres_server.dsn()) as made:
        yield made


async def warm(kept: Postgres) -> None:
    """Have every statement prepared, on the one connection there is."""
    for number in range(3):
        of_run = config(f"warm {number}")
        await kept.aget_state(of_run)
        written = await kept.aput_state(of_run, state("a"))
        written = await kept.aput_state(of_run, grown(written, "b"))
        await kept.aget_state(config(f"warm {number}"))


@pytest.fixture
async def kept(postgres_dsn: str, tap: WireTap) -> AsyncIterator[Postgres]:
    async with Postgres(tap.through(postgres_dsn), pool_size=1, max_overflow=0) as made:
        await warm(made)
        yield made


async def test_a_durable_write_is_one_round_trip(kept: Postgres, tap: WireTap) -> None:
    of_run = config()
    before = tap.round_trips
    written = await kept.aput_state(of_run, state("a", "b"))
    assert tap.round_trips - before == 1, "the first, which makes the thread"
    for turn in range(3):
        before = tap.round_trips
        written = await kept.aput_state(of_run, grown(written, f"{turn} a", f"{turn} b"))
        assert tap.round_trips - before == 1
    before = tap.round_trips
    await kept.aput_checkpoint(of_run, written, [message("beside")], {"why": "a test"})
    assert tap.round_trips - before == 1


@pytest.mark.parametrize("length", [1, 300])
async def test_a_state_is_read_in_two_round_trips(
    length: int, kept: Postgres, tap: WireTap
) -> None:
    await kept.aput_state(config(), state(*map(str, range(length))))
    for _ in range(2):
        before = tap.round_trips
        await kept.aget_state(config())
        assert tap.round_trips - before <= 2


async def test_a_durable_write_is_one_statement(postgres_dsn: str) -> None:
    engine = create_async_engine(postgres_dsn.replace("postgresql://", "postgresql+asyncpg://"))
    kept = Postgres(engine=engine)
    await warm(kept)
    statements = listen(engine)
    of_run = config()
    written = await kept.aput_state(of_run, state("a", "b"))
    await kept.aput_state(of_run, grown(written, "c"))
    assert len(statements) == 2
    statements.clear()
    await kept.aget_state(config())
    assert len(statements) <= 2
    await engine.dispose()


def listen(engine: AsyncEngine) -> list[str]:
    """Every statement from now on."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    return statements


@pytest.mark.parametrize("count", [2, 2000])
async def test_messages_are_looked_up_in_one_round_trip(
    count: int, kept: Postgres, tap: WireTap
) -> None:
    ids = [str(number) for number in range(count)]
    await kept.aput_messages(config(), [message(one) for one in ids])
    await kept.aget_messages(config(), ids)  # has the statement prepared
    before = tap.round_trips
    assert len(await kept.aget_messages(config(), ids)) == count
    assert tap.round_trips - before == 1
