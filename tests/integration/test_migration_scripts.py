"""Migrations as scripts that somebody runs by hand, and tables of others under our names."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import programs
import pytest
from databases import Database, PostgresSchema, SqliteFile
from servers.postgres import PostgresEndpoint
from threads import config, state

from tenxgraph.core.exceptions import StorageError, TransientStorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.checkpointer import PostgresCheckpointer, SqliteCheckpointer

SCHEMAS = ("public", "tenant", "Weird-Name", 'qu"ote', "50%")


def script(*arguments: str, dsn: str, schema: str = "") -> str:
    """What `alembic --sql` prints, where no database answers."""
    done = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments, "--sql"],
        cwd=programs.ROOT,
        env={**os.environ, "TENXGRAPH_DSN": dsn, "TENXGRAPH_SCHEMA": schema},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def layout(database: SqliteFile) -> list[tuple[str, str]]:
    """All tables and indexes, whatever the white space: SQLite keeps the text of each statement."""
    found = database.fetch("SELECT name, sql FROM sqlite_master ORDER BY type, name")
    return [(name, " ".join((sql or "").split())) for name, sql in found]


async def run_script(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(sql)
    await connection.close()


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_script_for_postgresql_makes_what_setup_makes(
    schema: str, postgres_server: PostgresEndpoint, empty_postgres: str
) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    made = PostgresSchema(postgres_server, empty_postgres, schema)
    async with PostgresCheckpointer[AgentState](empty_postgres, schema=schema) as kept:
        await kept.asetup()
    by_setup = made.description()
    programs.alembic("downgrade", "base", dsn=empty_postgres, schema=schema)
    assert made.tables() == set()

    await run_script(empty_postgres, script("upgrade", "head", dsn=nowhere, schema=schema))
    assert made.description() == by_setup
    if schema != "public":
        assert PostgresSchema(postgres_server, empty_postgres).tables() == set()
    async with PostgresCheckpointer[AgentState](empty_postgres, schema=schema) as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))

    down = script("downgrade", "head:base", dsn=nowhere, schema=schema)
    await run_script(empty_postgres, down)
    assert made.tables() == set()


def test_a_script_for_sqlite_makes_what_setup_makes(tmp_path: Path) -> None:
    by_setup, by_script = (SqliteFile(tmp_path / name) for name in ("setup.db", "script.db"))
    kept = create_checkpointer(by_setup.dsn)
    kept.setup()
    kept.close()
    nowhere = str(tmp_path / "nowhere.db")
    up = script("upgrade", "head", dsn=nowhere)
    with closing(sqlite3.connect(by_script.path)) as connection:
        connection.executescript(up)
    assert layout(by_script) == layout(by_setup)
    with closing(sqlite3.connect(by_script.path)) as connection:
        connection.executescript(script("downgrade", "head:base", dsn=nowhere))
    assert by_script.tables() == set()
    assert not os.path.exists(nowhere)


def test_a_script_is_one_transaction(tmp_path: Path) -> None:
    for dsn in (str(tmp_path / "x.db"), "postgresql://127.0.0.1:1/x"):
        lines = script("upgrade", "head", dsn=dsn).split("\n\n")
        assert lines[0] == "BEGIN;"
        assert lines[-2] == "COMMIT;"


THEIRS = {
    "threads": "CREATE TABLE threads (id INTEGER PRIMARY KEY, title TEXT)",
    "messages": "CREATE TABLE messages (id INTEGER PRIMARY KEY)",
    "states": "CREATE VIEW states AS SELECT 1 AS state",
    "schema_version": "CREATE TABLE schema_version (version INTEGER, description TEXT)",
    "schema_version of Alembic": "CREATE TABLE schema_version (version_num VARCHAR(32))",
}


@pytest.fixture(params=["sqlite", "postgres"])
def database(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres_server: PostgresEndpoint,
    empty_postgres: str,
) -> Database:
    """A database without our tables."""
    if request.param == "sqlite":
        return SqliteFile(tmp_path / "host.db")
    return PostgresSchema(postgres_server, empty_postgres)


@pytest.mark.parametrize("name", THEIRS)
def test_setup_refuses_a_database_that_has_such_a_table(name: str, database: Database) -> None:
    database.execute(THEIRS[name])
    if name.endswith("Alembic"):
        database.execute("INSERT INTO schema_version VALUES ('ae1027a6acf1')")
    before = database.description()
    kept = create_checkpointer(database.dsn)
    with pytest.raises(StorageError, match=f"`{name.split()[0]}`.*of its own") as caught:
        kept.setup()
    kept.close()
    assert caught.value.code == "name_taken"
    assert not isinstance(caught.value, TransientStorageError)
    assert database.description() == before
    if isinstance(database, SqliteFile):
        assert database.fetch("PRAGMA journal_mode") == [("delete",)]
    with pytest.raises(AssertionError, match=r"FAILED: There is `.*of its own") as failed:
        programs.alembic("upgrade", "head", dsn=database.dsn)
    assert "Traceback" not in str(failed.value)
    assert database.description() == before


def test_an_index_of_the_same_name_is_refused_as_well(database: Database) -> None:
    database.execute("CREATE TABLE theirs (id INTEGER)")
    database.execute("CREATE INDEX uq_states_version ON theirs (id)")
    before = database.description()
    kept = create_checkpointer(database.dsn)
    with pytest.raises(StorageError, match=r"uq_states_version") as caught:
        kept.setup()
    kept.close()
    assert caught.value.code == "name_taken"
    assert database.description() == before


async def test_a_read_says_so_too(database: Database) -> None:
    database.execute(THEIRS["schema_version"])
    async with create_checkpointer(database.dsn) as kept:
        with pytest.raises(StorageError, match="of its own") as caught:
            await kept.aget_state(config())
    assert caught.value.code == "name_taken"


async def test_a_schema_of_its_own_is_the_remedy(empty_postgres: str) -> None:
    await run_script(empty_postgres, "CREATE TABLE threads (id int)")
    async with PostgresCheckpointer[AgentState](empty_postgres, schema="tenxgraph") as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))


async def test_a_file_of_its_own_is_the_remedy(tmp_path: Path) -> None:
    async with SqliteCheckpointer[AgentState](tmp_path / "own.db") as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))
