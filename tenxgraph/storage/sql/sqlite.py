"""SQLite: set up like a grown database, one writer connection per file and process."""

import asyncio
import atexit
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from tenxgraph.storage.sql import migrate
from tenxgraph.storage.sql.errors import translating
from tenxgraph.storage.sql.loop_engines import LoopEngines
from tenxgraph.storage.sql.types import escape

__all__ = ["SqliteDatabase", "SqliteDialect", "open_engine"]

T = TypeVar("T")

MEMORY = ":memory:"
_BUSY_TIMEOUT_MS = 30_000


class SqliteDialect:
    """What SQLite answers."""

    def insert(self, table: Table) -> sqlite.Insert:
        """An INSERT that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
        return sqlite.insert(table)

    def json_has(
        self, column: ColumnElement[Any], key: str, value: str | float | bool | None
    ) -> ColumnElement[bool]:
        """Whether a JSON object has `key` with this very value."""
        entry = func.json_each(column).table_valued("key", "atom", "type")
        # The key is a bound value: a JSON path would have to be built from it.
        entry_of_key = select(1).select_from(entry).where(entry.c.key == escape(key))
        if value is None or isinstance(value, bool):
            found = entry_of_key.where(entry.c.type == str(value).lower().replace("none", "null"))
        elif isinstance(value, str):
            found = entry_of_key.where(entry.c.type == "text", entry.c.atom == escape(value))
        else:
            # An int that SQLite cannot hold is a REAL to json_each as well.
            number = float(value) if abs(value) >= 2**63 else value
            found = entry_of_key.where(
                entry.c.type.in_(("integer", "real")), entry.c.atom == number
            )
        return found.exists()


def configure(engine: Engine) -> None:
    """Make every connection of an engine durable, patient and strict."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        # The driver opens no transaction of its own: whoever wants one says which kind.
        connection.isolation_level = None
        # SQLite's own knows the letters of ASCII only.
        connection.create_function("lower", 1, _lower, deterministic=True)
        cursor = connection.cursor()
        try:
            cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
            cursor.execute("PRAGMA foreign_keys=ON")
            cursor.execute("PRAGMA synchronous=FULL")
        except sqlite3.Error:
            connection.close()  # nobody else will: the pool has not got it yet
            raise
        cursor.close()


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _let_write(engine: Engine) -> None:
    """Begin each transaction with the write lock, which readers do not notice."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        _use_wal(cursor)
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A deferred transaction that turns into a writer fails at once where another has written.
        connection.exec_driver_sql("BEGIN IMMEDIATE")


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


def open_engine(path: str) -> Engine:
    """A sync engine on a file (or `:memory:`), for the writer and for migrations."""
    engine = create_engine(
        URL.create("sqlite", database=path),
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
        hide_parameters=True,
    )
    configure(engine)
    _let_write(engine)
    return engine


class _Writer:
    """The one connection through which this process writes a file, in a thread of its own.

    A unit of work is one hop to the thread and back, where an async driver needs one or more per
    statement. Once begun it runs to its end whatever becomes of the caller, so a cancelled write
    is all or nothing.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._engine = open_engine(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenxgraph-sqlite")
        self._connection: Connection | None = None
        self._pid = os.getpid()
        self.users = 0
        atexit.register(self._close_at_exit)

    async def run(self, work: Callable[[Connection], T]) -> T:
        future = self._thread.submit(self._run, work)
        return await asyncio.wrap_future(future)

    def _run(self, work: Callable[[Connection], T]) -> T:
        with translating(self._path):
            if self._connection is None:
                self._connection = self._engine.connect()
            with self._connection.begin():
                return work(self._connection)

    def close(self) -> None:
        self._thread.submit(self._close).result()
        self._thread.shutdown()

    def _close(self) -> None:
        atexit.unregister(self._close_at_exit)
        if self._connection is not None:
            self._connection.close()
        self._engine.dispose()

    def _close_at_exit(self) -> None:
        # The thread has ended before us. A child leaves its parent's connection alone.
        if self._pid == os.getpid():
            self._close()


class _Writers:
    """The writers of this process, by file: two checkpointers on one file share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writers: dict[tuple[int, str], _Writer] = {}

    def acquire(self, path: str) -> _Writer:
        with self._lock:
            key = os.getpid(), path
            writer = self._writers.get(key)
            if writer is None:
                writer = self._writers[key] = _Writer(path)
            writer.users += 1
            return writer

    def release(self, path: str, writer: _Writer) -> None:
        with self._lock:
            writer.users -= 1
            if writer.users:
                return
            self._writers.pop((os.getpid(), path), None)
        writer.close()


_writers = _Writers()


def _is_current(connection: Connection) -> bool:
    return migrate.is_current(connection, None)


def _upgrade(connection: Connection) -> None:
    if not _is_current(connection):
        migrate.upgrade(connection, None)


class SqliteDatabase:
    """Runs units of work on one SQLite file.

    Writes run in the writer's thread, reads through aiosqlite side by side with them.
    """

    def __init__(self, path: str) -> None:
        self.path = path if path == MEMORY else str(Path(path).expanduser().absolute())
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._writer: _Writer | None = None
        self._readers = LoopEngines(self._make_reader)

    @property
    def schema(self) -> None:
        """SQLite has no schemas."""
        return

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run queries; what they see is what was committed before."""
        if self.path == MEMORY:
            return await self.write(work)
        with translating(self.path):
            engine = await self._readers.current()
            async with engine.connect() as connection:
                return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a unit of work in one transaction that holds the write lock from its start."""
        return await self._acquire().run(work)

    async def migrate(self) -> None:
        """Bring the file to the newest revision."""
        if self._exists() and await self.read(_is_current):
            return
        async with migrate.one_at_a_time():
            await self.write(_upgrade)

    async def close(self) -> None:
        """Close this object's connections; the writer when its last user closes it."""
        await self._readers.close()
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            self._release(writer)

    def _exists(self) -> bool:
        return self.path != MEMORY and Path(self.path).exists()

    def _acquire(self) -> _Writer:
        with self._lock:
            if self._writer is None or self._pid != os.getpid():
                self._pid = os.getpid()
                # An in-memory database is private to its object.
                self._writer = (
                    _Writer(MEMORY) if self.path == MEMORY else _writers.acquire(self.path)
                )
            return self._writer

    def _release(self, writer: _Writer) -> None:
        if self.path == MEMORY:
            writer.close()
        else:
            _writers.release(self.path, writer)

    def _make_reader(self) -> AsyncEngine:
        # A reader must not make the file: one that is missing is an error, not an empty database.
        existing = URL.create(
            "sqlite+aiosqlite",
            database=Path(self.path).as_uri(),
            query={"mode": "rw", "uri": "true"},
        )
        engine = create_async_engine(
            existing,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            pool_size=2,
            max_overflow=6,
        )
        configure(engine.sync_engine)
        return engine
