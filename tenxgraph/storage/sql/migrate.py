"""What `setup()` calls: the same revisions as `alembic upgrade head`, over a connection in hand."""

import asyncio
import hashlib
import importlib
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    func,
    inspect,
    literal_column,
    select,
    true,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema

import tenxgraph
from tenxgraph.core.exceptions import SchemaVersionError, StorageError
from tenxgraph.storage.sql.errors import is_name_taken, is_privilege_missing
from tenxgraph.storage.sql.models import SCHEMA_VERSION_TABLE, Base

__all__ = [
    "REVISIONS",
    "explaining",
    "history",
    "installed_revision",
    "one_at_a_time",
    "refuse_taken_names",
    "script_location",
    "upgrade",
    "verify",
]

REVISIONS = ("0001", "0002")
"""Every revision this version of the code knows, oldest first; the last is the one it needs."""

_lock = threading.Lock()
_LOCK_TIMEOUT = 50


def _renew_lock_after_fork() -> None:
    """A lock held by another thread at the moment of a fork would stay locked in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock_after_fork)


def script_location() -> Path:
    """The migrations' folder: bundled in a wheel, beside the package in a checkout."""
    package = Path(tenxgraph.__file__).parent
    bundled = package / "_alembic"
    return bundled if bundled.is_dir() else package.parent / "alembic"


def history(schema: str | None) -> Table:
    """Return the table that says which revision the others are at."""
    return Table(SCHEMA_VERSION_TABLE, MetaData(), Column("version_num", Text), schema=schema)


def installed_revision(connection: Connection, schema: str | None) -> str | None:
    """The revision the tables are at, or `None` if there are none.

    Raises:
        StorageError: somebody else has a table of the history's name (code `name_taken`).
    """
    table = history(schema)
    if not inspect(connection).has_table(SCHEMA_VERSION_TABLE, schema=schema):
        return None
    # All columns: another's table may lack ours, and a query for it would end the transaction.
    everything: Select[Any] = select(literal_column("*")).select_from(table).limit(2)
    found = connection.execute(everything)
    columns, rows = list(found.keys()), found.all()
    if columns != ["version_num"] or len(rows) > 1 or not all(map(_is_ours, rows)):
        raise _name_taken([SCHEMA_VERSION_TABLE], schema)
    return rows[0].version_num if rows else None


def _is_ours(row: Row[Any]) -> bool:
    """Whether a revision is written like ours, four digits; Alembic's own are twelve letters."""
    return re.fullmatch(r"[0-9]{4}", str(row.version_num)) is not None


def refuse_taken_names(connection: Connection, schema: str | None) -> None:
    """Raise `StorageError` (code `name_taken`) if the first migration would meet others' tables."""
    inspector = inspect(connection)
    there = {*inspector.get_table_names(schema), *inspector.get_view_names(schema)}
    taken = sorted(there & Base.metadata.tables.keys())
    # Asked afterwards: another process may have made them in between.
    installed = installed_revision(connection, schema)
    if taken and installed is None:
        raise _name_taken(taken, schema)


def _name_taken(names: Sequence[str], schema: str | None) -> StorageError:
    tables = ", ".join(f"`{name}`" for name in names)
    if schema is None:
        where, remedy = "the file", "a SQLite file of its own"
    else:
        where = f"schema {schema!r}"
        remedy = 'a schema of its own (`schema="tenxgraph"`, or TENXGRAPH_SCHEMA for Alembic)'
    message = (
        f"There is {tables} in {where} already, which tenxgraph has not made. Nothing was "
        f"changed. Give tenxgraph {remedy}, or rename what is there."
    )
    return StorageError(message, code="name_taken", tables=list(names), schema=schema)


def verify(connection: Connection, schema: str | None) -> None:
    """Check that the tables are those this code needs; change nothing.

    Raises:
        SchemaVersionError: they are missing, older or newer; names both versions and the remedy.
    """
    installed, needed = installed_revision(connection, schema), REVISIONS[-1]
    if installed == needed:
        return
    where = "" if schema is None else f" in schema {schema!r}"
    if installed is None:
        problem = f"The tables of tenxgraph are not there{where}"
    elif installed in REVISIONS:
        problem = f"The tables{where} are at revision {installed}; this version needs {needed}"
    else:
        message = (
            f"The tables{where} are at revision {installed}, which is newer than this version of "
            f"tenxgraph ({tenxgraph.__version__}, revision {needed}). Upgrade the package."
        )
        raise SchemaVersionError(message, installed=installed, needed=needed)
    message = (
        f"{problem}. Run `checkpointer.setup()` or `alembic upgrade head` once, before the first "
        "request."
    )
    raise SchemaVersionError(message, installed=installed, needed=needed)


def is_current(connection: Connection, schema: str | None) -> bool:
    """Whether nothing is to be done.

    Raises:
        SchemaVersionError: the tables are newer than this code.
        StorageError: somebody else has tables of these names (code `name_taken`).
    """
    installed = installed_revision(connection, schema)
    if installed is None:
        refuse_taken_names(connection, schema)
    elif installed not in REVISIONS:
        verify(connection, schema)
    return installed == REVISIONS[-1]


def lock(connection: Connection, schema: str | None) -> None:
    """Wait until no other process migrates this schema; held to the end of the transaction.

    On PostgreSQL an advisory lock, as `IF NOT EXISTS` does not keep two creators apart. On SQLite
    the transaction has begun with the file's write lock already.
    """
    if connection.dialect.name == "postgresql":
        for statement in lock_statements(schema):
            connection.execute(statement)


def lock_statements(schema: str | None) -> list[Select[Any]]:
    """What `lock` asks of PostgreSQL."""
    return [
        select(func.set_config("lock_timeout", f"{_LOCK_TIMEOUT}s", true())),
        select(func.pg_advisory_xact_lock(_lock_key(schema))),
    ]


def _lock_key(schema: str | None) -> int:
    """One lock per schema: a number that means nothing else in the database."""
    digest = hashlib.sha256(f"tenxgraph migrations {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def make_schema(connection: Connection, schema: str | None) -> None:
    """Make the schema if it is not there, which takes a right that a role may well lack."""
    if schema is not None and not inspect(connection).has_schema(schema):
        connection.execute(CreateSchema(schema, if_not_exists=True))


def drop_empty_history(connection: Connection, schema: str | None) -> None:
    """Leave nothing behind where all migrations were undone; Alembic would leave its own table."""
    if installed_revision(connection, schema) is None:
        history(schema).drop(connection, checkfirst=True)


def upgrade(connection: Connection, schema: str | None) -> None:
    """Run every migration not yet applied, in the caller's transaction.

    Raises:
        StorageError: the role may not create the tables (code `missing_privilege`), or something
            of their names is there (code `name_taken`).
    """
    # Here, not above: whoever only reads and writes need not wait for alembic's import.
    command = importlib.import_module("alembic.command")
    config = importlib.import_module("alembic.config").Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["schema"] = schema
    command.upgrade(config, "head")


@contextmanager
def explaining(schema: str | None) -> Iterator[None]:
    """Raise `StorageError` with the remedy where the database refuses a migration."""
    try:
        yield
    except DBAPIError as error:
        words = str(error.orig).splitlines()[0]
        if is_name_taken(error):
            message = f"{_name_taken(['an index or type'], schema)} ({words})"
            raise StorageError(message, code="name_taken", schema=schema) from error
        if not is_privilege_missing(error):
            raise
        message = (
            f"The database role lacks the right CREATE that the migrations need: {words}. "
            f"Grant CREATE on schema {schema or 'public'!r} "
            "(and on the database, if the schema is to be made), or have `alembic upgrade head` "
            "run by a role that has it."
        )
        raise StorageError(message, code="missing_privilege", schema=schema) from error


@asynccontextmanager
async def one_at_a_time() -> AsyncIterator[None]:
    """Let one migration run in this process: alembic keeps its context in a global.

    Polls, since a task that waits for a lock in another thread cannot be cancelled cleanly.
    """
    await asyncio.to_thread(importlib.import_module, "alembic.command")
    held = _lock
    while not held.acquire(blocking=False):  # noqa: ASYNC110 - the holder may be on another loop
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        held.release()
