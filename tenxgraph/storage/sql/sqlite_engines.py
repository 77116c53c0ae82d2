"""Engines on SQLite files, set up like a grown database's: durable, patient and strict."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

__all__ = ["begin_snapshot", "open_reader", "open_writer"]

_BUSY_TIMEOUT_MS = 30_000


def _configure(engine: Engine) -> None:
    """Make every connection of an engine durable, patient and strict."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        # The driver opens no transaction of its own: whoever wants one says which kind.
        connection.isolation_level = None
        # SQLite's own knows the letters of ASCII only.
        connection.create_function("lower", 1, _lower, deterministic=True)
        with _cursor(connection) as cursor:
            cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
            cursor.execute("PRAGMA foreign_keys=ON")
            cursor.execute("PRAGMA synchronous=FULL")


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _let_write(engine: Engine) -> None:
    """Begin each transaction with the write lock, which readers do not notice."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        with _cursor(connection) as cursor:
            _use_wal(cursor)

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A deferred transaction that turns into a writer fails at once where another has written.
        connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def _cursor(connection: Any) -> Iterator[Any]:
    """A cursor on a new connection, which nobody else closes if something is wrong with it."""
    cursor = connection.cursor()
    try:
        yield cursor
    except sqlite3.Error:
        connection.close()
        raise
    cursor.close()


def _use_wal(cursor: Any) -> None:
    """Let readers go on while a writer writes; the file remembers, so this is done once."""
    cursor.execute("PRAGMA journal_mode")
    if cursor.fetchone()[0].lower() in ("wal", "memory"):
        return
    # Changing the mode does not wait for other connections' locks, whatever the busy timeout.
    for _ in range(_BUSY_TIMEOUT_MS // 10 - 1):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            time.sleep(0.01)
    cursor.execute("PRAGMA journal_mode=WAL")


def open_writer(path: str) -> Engine:
    """A sync engine with one connection to a file, which it makes, or to `:memory:`."""
    engine = create_engine(
        URL.create("sqlite", database=path),
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
        hide_parameters=True,
    )
    _configure(engine)
    _let_write(engine)
    return engine


def open_reader(path: str) -> AsyncEngine:
    """An async engine on a file that is there: a reader makes none, which would hide a typo."""
    existing = URL.create(
        "sqlite+aiosqlite", database=Path(path).as_uri(), query={"mode": "rw", "uri": "true"}
    )
    engine = create_async_engine(
        existing,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        pool_size=2,
        max_overflow=6,
    )
    _configure(engine.sync_engine)
    return engine


def begin_snapshot(connection: Connection) -> None:
    """Let a reader see one moment until it is given back, which rolls its transaction back."""
    connection.exec_driver_sql("BEGIN")
