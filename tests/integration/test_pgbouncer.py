"""Behind a transaction pooler, where consecutive commands may meet different servers."""

import asyncio
import os
from collections.abc import Iterator

import programs
import pytest
from servers import PgBouncer
from servers.postgres import PostgresEndpoint
from threads import config, grown, message, state, texts

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer

pytestmark = [
    pytest.mark.pgbouncer,
    pytest.mark.skipif(
        not PgBouncer.available() and os.environ.get("CI") != "true",
        reason="pgbouncer is not installed: apt-get install pgbouncer",
    ),
]

# A second process names its prepared statements as the first does, unless they are made unique.
WORKER = """
    import asyncio, sys
    from threads import config, state, texts
    from tenxgraph.storage.checkpointer import PostgresCheckpointer

    async def main():
        async with PostgresCheckpointer(sys.argv[1], pgbouncer=True) as kept:
            await kept.asetup()
            ids = [f"{sys.argv[2]} {number}" for number in range(10)]
            for turn in range(10):
                await asyncio.gather(*(kept.aput_state(config(i), state(f"{turn}")) for i in ids))
                read = await asyncio.gather(*(kept.aget_state(config(i)) for i in ids))
                assert [texts(one) for one in read] == [[f"{turn}"]] * 10

    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def pgbouncer(postgres_server: PostgresEndpoint) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server, pool_mode="transaction", default_pool_size=2) as pooler:
        yield pooler


@pytest.fixture
def dsn(pgbouncer: PgBouncer, empty_postgres: str) -> str:
    """An empty database, by way of the pooler."""
    return pgbouncer.dsn(empty_postgres.rpartition("/")[2])


async def test_setup_reads_and_writes_under_load(dsn: str) -> None:
    opened = [PostgresCheckpointer[AgentState](dsn, pgbouncer=True) for _ in range(5)]
    await asyncio.gather(*(kept.asetup() for kept in opened))
    kept = opened[0]
    for turn in range(10):
        ids = [f"t{number}" for number in range(20)]
        await asyncio.gather(*(kept.aput_state(config(i), state(f"{turn}")) for i in ids))
        read = await asyncio.gather(*(kept.aget_state(config(i)) for i in ids))
        assert [texts(one) for one in read] == [[f"{turn}"]] * 20
    for one in opened:
        await one.aclose()


async def test_every_method_works(dsn: str) -> None:
    async with PostgresCheckpointer[AgentState](f"{dsn}?pgbouncer=true") as kept:
        await kept.asetup()
        of_run = config(thread_name="a thread")
        written = await kept.aput_state(of_run, state("a"))
        written = await kept.aput_state(of_run, grown(written, "b"))
        await kept.aput_messages(config(), [message("a"), message("c")])
        await kept.aput_messages(config("new"), [message("a"), message("b")])
        assert len(await kept.alist_messages(config("new"))) == 2
        assert len(await kept.alist_messages(config())) == 3
        assert [one.version for one in await kept.alist_states(config())] == [2, 1]
        assert texts(await kept.aget_state(config(), version=1)) == ["a"]
        assert [one.thread_name for one in await kept.alist_threads(config())] == [
            None,
            "a thread",
        ]
        forked = await kept.afork_thread(config(), "forked")
        assert texts(await kept.aget_state(forked)) == ["a", "b"]
        assert await kept.adelete_message(config(), "c")
        assert await kept.aclean_thread(config())
        assert await kept.aget_state(config()) is None


def test_processes_do_not_meet_each_others_prepared_statements(dsn: str) -> None:
    programs.finish(*(programs.start(WORKER, dsn, f"w{number}") for number in range(3)))
