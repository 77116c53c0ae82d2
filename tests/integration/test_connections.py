"""Connections that die, hang, or cannot be made: what a caller notices, and what nobody does."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import asyncpg  # type: ignore[import-untyped]
import pytest
from servers import PostgresServer, TcpProxy
from servers.postgres import PostgresEndpoint
from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine
from threads import config, grown, state, texts

from tenxgraph.core.exceptions import StorageError, TransientStorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer

Postgres = PostgresCheckpointer[AgentState]

PATIENCE = 30
"""Seconds after which a call counts as hanging, however busy the machine is."""


@pytest.fixture
async def kept(postgres_dsn: str) -> AsyncIterator[Postgres]:
    async with Postgres(postgres_dsn) as made:
        yield made


@pytest.fixture
def proxy(postgres_server: PostgresEndpoint) -> Iterator[TcpProxy]:
    port = int(postgres_server.dsn().rpartition(":")[2].partition("/")[0])
    with TcpProxy("127.0.0.1", port) as made:
        yield made


def connections(server: PostgresEndpoint, dsn: str, state: str = "%") -> int:
    """How many there are to a database, as the server sees it."""
    counted = server.fetch(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = $1 AND state LIKE $2",
        dsn.rpartition("/")[2],
        state,
    )
    return int(counted[0]["n"])


def terminate(server: PostgresEndpoint, dsn: str) -> None:
    """End every connection to a database, as a server does with idle ones."""
    server.fetch(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1",
        dsn.rpartition("/")[2],
    )


async def settle(server: PostgresEndpoint, dsn: str, most: int) -> int:
    """How many connections are left, once the server has noticed who has gone."""
    for _ in range(100):
        if (left := connections(server, dsn)) <= most:
            break
        await asyncio.sleep(0.02)
    return left


async def test_connections_killed_while_idle_are_not_noticed(
    kept: Postgres, postgres_server: PostgresEndpoint, postgres_dsn: str
) -> None:
    of_run = config()
    written = await kept.aput_state(of_run, state("a"))
    await asyncio.gather(*(kept.aget_state(config()) for _ in range(5)))
    terminate(postgres_server, postgres_dsn)
    assert texts(await kept.aget_state(config())) == ["a"]
    terminate(postgres_server, postgres_dsn)
    await kept.aput_state(of_run, grown(written, "b"))
    assert of_run["_checkpoint_version"] == 2
    terminate(postgres_server, postgres_dsn)
    await kept.aput_messages(config(), state("c").context)
    assert len(await kept.alist_messages(config())) == 3


async def test_connections_killed_under_load_are_not_noticed(
    kept: Postgres, postgres_server: PostgresEndpoint, postgres_dsn: str
) -> None:
    async def write(thread_id: str) -> None:
        of_run, written = config(thread_id), None
        for turn in range(20):
            written = await kept.aput_state(of_run, grown(written, f"{turn}"))

    writers = [asyncio.create_task(write(f"t{number}")) for number in range(10)]
    while not all(writer.done() for writer in writers):
        await asyncio.to_thread(terminate, postgres_server, postgres_dsn)
        await asyncio.sleep(0.05)
    await asyncio.gather(*writers)
    for number in range(10):
        assert texts(await kept.aget_state(config(f"t{number}"))) == list(map(str, range(20)))


async def test_a_restarted_server_is_used_again_by_all_at_once() -> None:
    with PostgresServer(durable=False) as server:
        async with Postgres(server.create_database("restarted")) as kept:
            await kept.asetup()
            await kept.aput_state(config(), state("a"))
            await asyncio.gather(*(kept.aget_state(config()) for _ in range(10)))
            server.restart()
            read = await asyncio.gather(*(kept.aget_state(config()) for _ in range(20)))
            assert [texts(one) for one in read] == [["a"]] * 20
            server.kill()
            with pytest.raises(TransientStorageError, match="reached"):
                await kept.aget_state(config())
            server.start()
            assert texts(await kept.aget_state(config())) == ["a"]
            await kept.aput_state(config(), state("b"))


async def test_a_call_that_nobody_answers_can_be_given_up(
    postgres_dsn: str, proxy: TcpProxy
) -> None:
    async with Postgres(proxy.through(postgres_dsn)) as kept:
        await kept.aput_state(config(), state("a"))
        proxy.freeze()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(kept.aget_state(config()), 0.3)
        proxy.thaw()
        assert texts(await kept.aget_state(config())) == ["a"]
        await kept.aput_state(config(), state("b"))


async def test_a_call_that_nobody_answers_ends_by_itself(
    postgres_dsn: str, proxy: TcpProxy
) -> None:
    options: dict[str, Any] = {"command_timeout": 0.3, "connect_timeout": 0.3}
    async with Postgres(proxy.through(postgres_dsn), **options) as kept:
        of_run = config()
        written = await kept.aput_state(of_run, state("a"))
        proxy.freeze()
        for call in (kept.aget_state(config()), kept.aput_state(of_run, grown(written, "b"))):
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(TransientStorageError):
                    await call
        proxy.thaw()
        again = config()
        read = await kept.aget_state(again)
        assert texts(read) in (["a"], ["a", "b"])
        await kept.aput_state(again, grown(read, "c"))
        assert texts(await kept.aget_state(config()))[-1] == "c"


async def test_closing_does_not_wait_for_a_server_that_does_not_answer(
    postgres_dsn: str, proxy: TcpProxy
) -> None:
    kept = Postgres(proxy.through(postgres_dsn))
    await kept.aput_state(config(), state("a"))
    proxy.freeze()
    await asyncio.wait_for(kept.aclose(), 5)
    proxy.thaw()


async def test_no_connection_is_left_in_a_transaction(
    kept: Postgres, postgres_server: PostgresEndpoint, postgres_dsn: str
) -> None:
    of_run = config()
    written = await kept.aput_state(of_run, state("a"))
    await kept.aput_messages(config(), written.context)
    await kept.aget_state(config())
    async for _ in kept.aexport_thread(config()):
        # The export's own snapshot, which ends with it.
        assert connections(postgres_server, postgres_dsn, "idle in transaction%") <= 1
    assert connections(postgres_server, postgres_dsn, "idle in transaction%") == 0


async def test_a_hundred_checkpointers_leave_no_connection_behind(
    postgres_server: PostgresEndpoint, postgres_dsn: str
) -> None:
    for _ in range(100):
        async with Postgres(postgres_dsn) as kept:
            await kept.aget_state(config())
    assert await settle(postgres_server, postgres_dsn, 1) <= 1


async def test_an_engine_of_the_callers_own_is_shared_and_never_closed(
    postgres_server: PostgresEndpoint, postgres_dsn: str
) -> None:
    engine = create_async_engine(
        postgres_dsn.replace("postgresql://", "postgresql+asyncpg://"), pool_size=3, max_overflow=0
    )
    try:
        sharing = [Postgres(engine=engine) for _ in range(50)]
        await asyncio.gather(
            *(one.aput_state(config(f"t{i}"), state("a")) for i, one in enumerate(sharing))
        )
        await sharing[0].aclose()
        assert texts(await sharing[1].aget_state(config("t1"))) == ["a"]
        await sharing[0].asetup()
        assert connections(postgres_server, postgres_dsn) == 3
        async with engine.connect() as connection:
            assert await connection.scalar(select(1)) == 1
    finally:
        await engine.dispose()


async def test_a_full_pool_says_so(postgres_dsn: str, proxy: TcpProxy) -> None:
    options: dict[str, Any] = {
        "pool_size": 1,
        "max_overflow": 0,
        "pool_timeout": 0.2,
        "command_timeout": 2,
    }
    async with Postgres(proxy.through(postgres_dsn), **options) as kept:
        await kept.aput_state(config(), state("a"))
        proxy.freeze()
        holder = asyncio.create_task(kept.aget_state(config()))
        await asyncio.sleep(0.05)
        with pytest.raises(TransientStorageError, match="pool_size"):
            await kept.aget_state(config())
        proxy.thaw()
        assert texts(await holder) == ["a"]


async def test_a_write_that_the_server_cancels_is_known_not_to_be_written(
    kept: Postgres, postgres_dsn: str
) -> None:
    await kept.aput_state(config(), state("a"))
    blocker = await asyncpg.connect(postgres_dsn)
    async with Postgres(f"{postgres_dsn}?statement_timeout=100") as hurried:
        await hurried.aget_state(config())
        async with blocker.transaction():
            await blocker.execute("SELECT 1 FROM threads FOR UPDATE")
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(TransientStorageError, match="statement timeout") as caught:
                    await hurried.aput_state(config(), state("b"))
        assert caught.value.code == "transient"
        assert texts(await hurried.aget_state(config())) == ["a"]
        await hurried.aput_state(config(), state("c"))
    await blocker.close()


UNREACHABLE = {
    "no server": ("postgresql://u:hunter2@127.0.0.1:1/db", "127.0.0.1"),
    "no host": ("postgresql://u:hunter2@no-such-host.invalid/db", "no-such-host.invalid"),
}


@pytest.mark.parametrize("case", UNREACHABLE)
@pytest.mark.parametrize("call", ["asetup", "aget_state", "aput_state"])
async def test_a_database_that_is_not_there_is_said_at_once(
    case: str, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    dsn, place = UNREACHABLE[case]
    arguments: dict[str, list[Any]] = {
        "asetup": [],
        "aget_state": [config()],
        "aput_state": [config(), state("a")],
    }
    async with Postgres(dsn) as kept:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(TransientStorageError, match=place) as caught:
                await getattr(kept, call)(*arguments[call])
        assert "hunter2" not in f"{caught.value}{caught.value.context}{kept!r}{caplog.text}"


REFUSED = {
    "wrong password": ("postgresql://postgres:hunter2@{host}/postgres", "password"),
    "no such database": ("postgresql://{login}@{host}/nowhere", "nowhere"),
    "no such role": ("postgresql://nobody:hunter2@{host}/postgres", "nobody|password"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_login_is_no_passing_trouble(
    case: str, postgres_server: PostgresEndpoint
) -> None:
    login, _, host = postgres_server.dsn().partition("://")[2].partition("/")[0].rpartition("@")
    dsn, words = REFUSED[case]
    async with Postgres(dsn.format(login=login, host=host)) as kept:
        with pytest.raises(StorageError, match=words) as caught:
            await kept.asetup()
        assert not isinstance(caught.value, TransientStorageError)
        assert "hunter2" not in str(caught.value)
        assert "DSN" in str(caught.value)


SPELLINGS = {
    "postgres": "postgres://{rest}",
    "asyncpg": "postgresql+asyncpg://{rest}",
    "sslmode=disable": "postgresql://{rest}?sslmode=disable",
    "sslmode=prefer": "postgresql://{rest}?sslmode=prefer",
    "ssl=prefer": "postgresql+asyncpg://{rest}?ssl=prefer",
    "channel_binding": "postgresql://{rest}?channel_binding=prefer&sslmode=prefer",
    "connect_timeout": "postgresql://{rest}?connect_timeout=5&application_name=agents",
    "options": "postgresql://{rest}?options=-c%20application_name%3Dagents",
    "pgbouncer": "postgresql://{rest}?pgbouncer=true",
}


@pytest.mark.parametrize("case", SPELLINGS)
async def test_what_hosts_hand_out_connects(case: str, empty_postgres: str) -> None:
    dsn = SPELLINGS[case].format(rest=empty_postgres.partition("://")[2])
    async with Postgres(dsn) as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))
        assert texts(await kept.aget_state(config())) == ["a"]


@pytest.mark.parametrize("wish", ["sslmode=require", "sslmode=verify-full", "ssl=require"])
async def test_a_wish_for_tls_is_never_dropped(wish: str, postgres_dsn: str) -> None:
    async with Postgres(f"{postgres_dsn}?{wish}") as kept:
        with pytest.raises(StorageError, match=r"(?i)ssl|certificate"):
            await kept.asetup()


@pytest.mark.parametrize("password", ["p@ss%w", "a/b?c#d:e", "100%", "ümläut [x]", "'\"\\ "])
async def test_any_password_connects_and_is_never_shown(
    password: str,
    postgres_server: PostgresEndpoint,
    empty_postgres: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    role = f"agent {empty_postgres[-6:]}"
    literal = password.replace("'", "''")
    database = empty_postgres.rpartition("/")[2]
    postgres_server.execute(f"""CREATE ROLE "{role}" LOGIN PASSWORD '{literal}'""")
    postgres_server.execute(f'ALTER DATABASE "{database}" OWNER TO "{role}"')
    try:
        dsn = postgres_server.dsn(database, role, password)
        async with Postgres(dsn) as kept:
            await kept.asetup()
            await kept.aput_state(config(), state("a"))
            assert texts(await kept.aget_state(config())) == ["a"]
            shown = f"{kept!r}{caplog.text}"
        assert password not in shown
        assert quote(password, safe="") not in shown
    finally:
        postgres_server.drop_database(database)
        postgres_server.execute(f'DROP ROLE "{role}"')
