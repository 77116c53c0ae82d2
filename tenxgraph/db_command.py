"""`tenxgraph db`: create or migrate the tables of a database, and tell what they are at."""

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING

from tenxgraph._optional import require
from tenxgraph.core.exceptions import SchemaVersionError, TenxGraphError

if TYPE_CHECKING:
    from tenxgraph.storage.sql.postgres_database import PostgresDatabase
    from tenxgraph.storage.sql.sqlite_database import SqliteDatabase

    Database = PostgresDatabase | SqliteDatabase

__all__ = ["add_db_command", "run_db_command"]

_ACTIONS = {
    "upgrade": "create the tables, or migrate them to the newest revision",
    "current": "print the revision of the tables",
    "check": "end with code 1 unless the tables are at the revision that this version needs",
}


def add_db_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `db` with its actions to the parser of the command `tenxgraph`."""
    what = "create or migrate the tables; needs no agent, no settings and no extra for SQLite"
    actions = commands.add_parser("db", help=what, description=what).add_subparsers(
        dest="action", required=True
    )
    for name, help_text in _ACTIONS.items():
        action = actions.add_parser(name, help=help_text, description=help_text)
        action.add_argument(
            "dsn",
            nargs="?",
            default=os.environ.get("TENXGRAPH_DSN"),
            help="path of a SQLite file, or postgresql://...; by default $TENXGRAPH_DSN",
        )
        action.add_argument(
            "--schema", help="schema of the tables in PostgreSQL; by default $TENXGRAPH_SCHEMA"
        )


def run_db_command(arguments: argparse.Namespace) -> int:
    """Do what the arguments say, and return the exit code."""
    try:
        return asyncio.run(_run(arguments.action, _database(arguments.dsn, arguments.schema)))
    except SchemaVersionError as error:
        return _failed(error, 1)
    except (TenxGraphError, ImportError, ValueError) as error:
        return _failed(error, 2)


def _database(dsn: str | None, schema: str | None) -> "Database":
    from tenxgraph.storage.sql.databases import open_database
    from tenxgraph.storage.sql.dsn import is_postgres, refuse_keywords

    refuse_keywords(dsn or "")
    if dsn and is_postgres(dsn):
        require("asyncpg", extra="postgres", wanted_by="`tenxgraph db` with PostgreSQL")
    elif schema is not None:
        raise ValueError("`--schema` goes with PostgreSQL. A SQLite file has no schemas.")
    return open_database(dsn, schema or os.environ.get("TENXGRAPH_SCHEMA"))


async def _run(action: str, database: "Database") -> int:
    from tenxgraph.storage.sql import migrate

    schema = database.schema
    try:
        if action == "upgrade":
            await database.migrate()
        elif action == "check":
            await database.read(lambda connection: migrate.verify(connection, schema))
        revision = await database.read(lambda c: migrate.installed_revision(c, schema))
    finally:
        await database.close()
    print(revision or "none")  # noqa: T201 - a command prints
    return 0


def _failed(error: Exception, code: int) -> int:
    print(f"tenxgraph: {error}", file=sys.stderr)  # noqa: T201 - a command prints
    return code
