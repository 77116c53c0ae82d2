"""What `setup()` calls: the same revisions as `alembic upgrade head`, over a connection in hand."""

import asyncio
import hashlib
import importlib
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    func,
    inspect,
    select,
    true,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema

import tenxgraph
from tenxgraph.core.exceptions import SchemaVersionError, StorageError
from tenxgraph.storage.sql.errors import is_privilege_missing
from tenxgraph.storage.sql.models import SCHEMA_VERSION_TABLE

__all__ = ["REVISIONS", "one_at_a_time", "script_location", "upgrade", "verify"]

REVISIONS = ("0001",)
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


def _history(schema: str | None) -> Table:
    return Table(SCHEMA_VERSION_TABLE, MetaData(), Column("version_num", Text), schema=schema)


def installed_revision(connection: Connection, schema: str | None) -> str | None:
    """The revision the tables are at, or `None` if there are none."""
    table = _history(schema)
    if not inspect(connection).has_table(SCHEMA_VERSION_TABLE, schema=schema):
        return None
    return connection.execute(select(table.c.version_num)).scalar_one_or_none()


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
    """
    installed = installed_revision(connection, schema)
    if installed is not None and installed not in REVISIONS:
        verify(connection, schema)
    return installed == REVISIONS[-1]


def lock(connection: Connection, schema: str | None) -> None:
    """Wait until no other process migrates this schema; held to the end of the transaction.

    On PostgreSQL an advisory lock, as `IF NOT EXISTS` does not keep two creators apart. On SQLite
    the transaction has begun with the file's write lock already.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.set_config("lock_timeout", f"{_LOCK_TIMEOUT}s", true())))
        connection.execute(select(func.pg_advisory_xact_lock(_lock_key(schema))))


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
        _history(schema).drop(connection, checkfirst=True)


def upgrade(connection: Connection, schema: str | None) -> None:
    """Run every migration not yet applied, in the caller's transaction.

    Raises:
        StorageError: the role may not create the tables (code `missing_privilege`).
    """
    # Here, not above: whoever only reads and writes need not wait for alembic's import.
    command = importlib.import_module("alembic.command")
    config = importlib.import_module("alembic.config").Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["schema"] = schema
    try:
        command.upgrade(config, "head")
    except DBAPIError as error:
        if not is_privilege_missing(error):
            raise
        message = (
            f"The database role lacks the right CREATE that the migrations need: "
            f"{str(error.orig).splitlines()[0]}. Grant CREATE on schema {schema or 'public'!r} "
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
