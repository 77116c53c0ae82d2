"""Migrations by `setup()` and by Alembic's own command: the same tables, whatever happens."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped]
import programs
import pytest
from databases import Database, PostgresSchema, SqliteFile
from servers.postgres import PostgresEndpoint
from threads import config, state, texts

from tenxgraph.core.exceptions import SchemaVersionError, TransientStorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.checkpointer import PostgresCheckpointer
from tenxgraph.storage.sql import migrate

OURS = {"threads", "states", "messages", "tool_executions", "schema_version"}

Making = Callable[[], Database]

WORKER = """
    import sys
    from tenxgraph.storage import create_checkpointer

    for line in sys.stdin:
        kept = create_checkpointer(line.strip())
        kept.setup()
        kept.close()
        print("done", flush=True)
"""

# Each line is a DSN, and the number of the DDL statement before which to die.
VICTIMS = """
    import os, signal, sys
    from sqlalchemy import event
    from sqlalchemy.engine import Engine
    from tenxgraph.storage import create_checkpointer
    import alembic.command

    def set_up(dsn, fatal):
        seen = 0
        def count(_connection, _cursor, statement, *_):
            nonlocal seen
            if statement.lstrip().startswith(("CREATE", "INSERT", "UPDATE")):
                seen += 1
                if seen == fatal:
                    os.kill(os.getpid(), signal.SIGKILL)
        def commit(_connection):
            if seen and seen + 1 == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
        event.listen(Engine, "before_cursor_execute", count)
        event.listen(Engine, "commit", commit)
        kept = create_checkpointer(dsn)
        kept.setup()
        kept.close()

    for line in sys.stdin:
        dsn, fatal = line.split()
        pid = os.fork()
        if not pid:
            set_up(dsn, int(fatal))
            os._exit(0)
        print(os.waitpid(pid, 0)[1], flush=True)
"""

UNTOUCHED = """
    import logging, os, sys
    import alembic.command, sqlalchemy  # which set up loggers of their own
    from tenxgraph.storage import create_checkpointer

    def surroundings():
        loggers = [logging.getLogger(name) for name in (None, "alembic", "sqlalchemy", "mine")]
        logs = [(one.level, list(one.handlers), one.disabled, one.propagate) for one in loggers]
        return logs, list(sys.path), os.getcwd(), dict(os.environ)

    logging.getLogger("mine").setLevel(logging.DEBUG)
    before = surroundings()
    kept = create_checkpointer(sys.argv[1])
    kept.setup()
    kept.close()
    assert surroundings() == before
    assert "env" not in sys.modules
"""


@pytest.fixture(params=["sqlite", "postgres"])
def making(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresEndpoint
) -> Making:
    """Makes empty databases of each dialect in turn."""

    def make() -> Database:
        name = f"test_{uuid4().hex[:12]}"
        if request.param == "sqlite":
            return SqliteFile(tmp_path / f"{name}.db")
        request.addfinalizer(lambda: postgres_server.drop_database(name))
        return PostgresSchema(postgres_server, postgres_server.create_database(name))

    return make


@pytest.fixture
def database(making: Making) -> Database:
    """An empty database of each dialect in turn."""
    return making()


def set_up(database: Database) -> object:
    """The tables that `setup()` makes."""
    kept = create_checkpointer(database.dsn)
    kept.setup()
    kept.close()
    return database.description()


def test_up_down_and_up_again_by_the_command(database: Database) -> None:
    programs.alembic("upgrade", "head", dsn=database.dsn)
    assert database.tables() == OURS
    made = database.description()
    assert "No new upgrade operations" in programs.alembic("check", dsn=database.dsn)
    programs.alembic("downgrade", "base", dsn=database.dsn)
    assert database.tables() == set()
    programs.alembic("upgrade", "head", dsn=database.dsn)
    assert database.description() == made
    assert set_up(database) == made, "setup() finds nothing to do"


def test_setup_makes_what_the_command_makes(making: Making) -> None:
    by_command, by_setup = making(), making()
    programs.alembic("upgrade", "head", dsn=by_command.dsn)
    assert set_up(by_setup) == by_command.description()


def test_setup_twice_and_after_a_downgrade(database: Database) -> None:
    made = set_up(database)
    assert set_up(database) == made
    programs.alembic("downgrade", "base", dsn=database.dsn)
    assert set_up(database) == made


def test_an_applications_own_tables_and_history_are_left_alone(database: Database) -> None:
    database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    database.execute("INSERT INTO customers VALUES (1, 'first')")
    database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    database.execute("INSERT INTO alembic_version VALUES ('theirs')")
    set_up(database)
    checked = programs.alembic("check", dsn=database.dsn)
    assert "No new upgrade operations" in checked
    assert "customers" not in checked
    programs.alembic("downgrade", "base", dsn=database.dsn)
    assert database.tables() == {"customers", "alembic_version"}
    assert database.fetch("SELECT * FROM customers") == [(1, "first")]
    assert database.fetch("SELECT * FROM alembic_version") == [("theirs",)]


def test_eight_processes_at_once(making: Making) -> None:
    workers = [programs.start(WORKER) for _ in range(8)]
    reference = set_up(making())
    databases = [making() for _ in range(4)]
    for database in databases:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{database.dsn}\n")
            worker.stdin.flush()
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "done\n", worker.communicate()[1]
    programs.finish(*workers)
    for database in databases:
        assert database.description() == reference
        assert database.fetch("SELECT count(*) FROM schema_version") == [(1,)]


async def test_ten_checkpointers_of_one_process_at_once(database: Database) -> None:
    opened = [create_checkpointer(database.dsn) for _ in range(10)]
    await asyncio.gather(
        *(kept.asetup() for kept in opened), *(asyncio.to_thread(kept.setup) for kept in opened)
    )
    for kept in opened:
        await kept.aclose()
    assert database.tables() == OURS


def test_killed_at_any_statement_and_set_up_again(making: Making) -> None:
    reference = set_up(making())
    victims = programs.start(VICTIMS, flags=())
    assert victims.stdin is not None
    assert victims.stdout is not None
    for fatal in range(1, 40):
        database = making()
        victims.stdin.write(f"{database.dsn} {fatal}\n")
        victims.stdin.flush()
        status = int(victims.stdout.readline())
        assert set_up(database) == reference
        if status == 0:
            break
    programs.finish(victims)
    assert fatal > 10, "there is more to a migration than this"


def test_in_a_loop_and_out_of_one_in_one_process(making: Making) -> None:
    async def in_a_loop(database: Database, *, sync: bool) -> None:
        kept = create_checkpointer(database.dsn)
        if sync:
            kept.setup()
        else:
            await kept.asetup()
        await kept.aput_state(config(), state("a"))
        await kept.aclose()

    for sync in (True, False):
        database = making()
        asyncio.run(in_a_loop(database, sync=sync))
        kept = create_checkpointer(database.dsn)
        kept.setup()
        assert texts(kept.get_state(config())) == ["a"]
        kept.close()
        database = making()
        set_up(database)
        asyncio.run(in_a_loop(database, sync=sync))


async def test_the_event_loop_goes_on_meanwhile(database: Database) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.005)
            beats += 1

    beating = asyncio.create_task(beat())
    async with create_checkpointer(database.dsn) as kept:
        await kept.asetup()
    beating.cancel()
    assert beats >= 3


@pytest.mark.parametrize("call", ["asetup", "aget_state", "aput_state", "aput_messages"])
async def test_tables_of_a_newer_version_are_refused(call: str, database: Database) -> None:
    await asyncio.to_thread(set_up, database)
    database.execute("UPDATE schema_version SET version_num = '9999'")
    arguments: dict[str, list[Any]] = {
        "asetup": [],
        "aget_state": [config()],
        "aput_state": [config(), state("a")],
        "aput_messages": [config(), state("a").context],
    }
    async with create_checkpointer(database.dsn) as kept:
        with pytest.raises(SchemaVersionError, match=r"9999.*newer.*Upgrade the package"):
            await getattr(kept, call)(*arguments[call])
    assert database.fetch("SELECT count(*) FROM threads") == [(0,)]
    assert database.fetch("SELECT version_num FROM schema_version") == [("9999",)]


@pytest.mark.parametrize("call", ["aget_state", "aput_state", "alist_threads"])
async def test_missing_tables_are_an_error_that_names_setup(call: str, database: Database) -> None:
    database.execute("CREATE TABLE customers (id INTEGER)")
    arguments = [config(), state("a")] if call == "aput_state" else [config()]
    async with create_checkpointer(database.dsn) as kept:
        with pytest.raises(SchemaVersionError, match=r"checkpointer\.setup\(\)"):
            await getattr(kept, call)(*arguments)
        assert database.tables() == {"customers"}
        await kept.asetup()
        await getattr(kept, call)(*arguments)


async def test_tables_dropped_meanwhile_are_an_error_that_names_setup(database: Database) -> None:
    async with create_checkpointer(database.dsn) as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))
        for table in ("tool_executions", "messages", "states", "threads"):
            database.execute(f"DROP TABLE {table}")
        with pytest.raises(SchemaVersionError, match=r"checkpointer\.setup\(\)"):
            await kept.aget_state(config())
        with pytest.raises(SchemaVersionError, match=r"checkpointer\.setup\(\)"):
            await kept.aput_state(config(), state("b"))


def test_a_percent_sign_in_the_path(tmp_path: Path) -> None:
    folder = tmp_path / "100% mine"
    folder.mkdir()
    database = SqliteFile(folder / "50%20.db")
    programs.alembic("upgrade", "head", dsn=database.dsn)
    assert database.tables() == OURS
    set_up(database)


def test_nothing_around_is_touched(database: Database, tmp_path: Path) -> None:
    programs.run(UNTOUCHED, database.dsn, cwd=tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".db"}


def test_the_command_without_a_dsn_says_what_to_set() -> None:
    with pytest.raises(AssertionError, match="TENXGRAPH_DSN"):
        programs.alembic("upgrade", "head", dsn="")


async def test_a_migration_that_another_holds_up_is_given_up(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "_LOCK_TIMEOUT", 0.2)
    other = await asyncpg.connect(empty_postgres)
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", migrate._lock_key("public"))
        async with PostgresCheckpointer[AgentState](empty_postgres) as kept:
            with pytest.raises(TransientStorageError, match="lock timeout"):
                await kept.asetup()
    await other.close()
