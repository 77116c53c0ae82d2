"""A SQLite database: one writer connection per file and process, readers beside it."""

import asyncio
import atexit
import functools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from tenxgraph._per_loop import PerLoop, closing
from tenxgraph.core.exceptions import StorageError
from tenxgraph.storage.sql import migrate
from tenxgraph.storage.sql.engine_closing import close_engine
from tenxgraph.storage.sql.errors import cannot_open, translating
from tenxgraph.storage.sql.sqlite_engines import begin_snapshot, open_reader, open_writer

__all__ = ["SqliteDatabase"]

T = TypeVar("T")

MEMORY = ":memory:"
_END: Any = object()


class _Writer:
    """The one connection through which this process writes a file, in a thread of its own.

    A unit of work is one hop to the thread and back, where an async driver needs one or more per
    statement. Once begun it runs to its end whatever becomes of the caller, so a cancelled write
    is all or nothing.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._engine = open_writer(path)
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

    def close(self) -> "Future[None]":
        """Close the connection after the work that was begun before."""
        try:
            closed = self._thread.submit(self._close)
        except RuntimeError:
            # The program is at its end: the thread has done all its work, and has ended.
            self._close()
            closed = Future()
            closed.set_result(None)
        self._thread.shutdown(wait=False)
        return closed

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
        self.renew_lock()
        self._writers: dict[tuple[int, str], _Writer] = {}

    def renew_lock(self) -> None:
        """A lock held by another thread at the moment of a fork would stay locked in the child."""
        self._lock = threading.Lock()

    def acquire(self, path: str) -> _Writer:
        with self._lock:
            key = os.getpid(), path
            writer = self._writers.get(key)
            if writer is None:
                writer = self._writers[key] = _Writer(path)
            writer.users += 1
            return writer

    def release(self, path: str, writer: _Writer) -> bool:
        """Return True if nobody uses the writer any more, so that it is to be closed."""
        with self._lock:
            writer.users -= 1
            if not writer.users:
                self._writers.pop((os.getpid(), path), None)
            return not writer.users


_writers = _Writers()
os.register_at_fork(after_in_child=_writers.renew_lock)


def _is_current(connection: Connection) -> bool:
    return migrate.is_current(connection, None)


def _upgrade(connection: Connection) -> None:
    if not _is_current(connection):
        migrate.upgrade(connection, None)


class SqliteDatabase:
    """Runs units of work on one SQLite file.

    Writes run in the writer's thread, reads through aiosqlite side by side with them.
    """

    def __init__(self, path: str, *, must_exist: bool = False) -> None:
        self._must_exist = must_exist
        self.path = path if path == MEMORY else str(Path(path).expanduser().absolute())
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._writer: _Writer | None = None
        self._readers = PerLoop(functools.partial(open_reader, self.path), close_engine)

    @property
    def schema(self) -> None:
        """SQLite has no schemas."""
        return

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run queries; what they see is what was committed before."""
        if self.path == MEMORY:
            return await self.write(work)
        if not self._exists():
            # The driver's thread would outlive a connection that fails, and maybe the loop.
            raise cannot_open(self.path)
        # To its end even if the caller is cancelled: the driver would leave its connection open.
        return await asyncio.shield(asyncio.ensure_future(self._read(work)))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a unit of work in one transaction that holds the write lock from its start."""
        return await self._acquire().run(work)

    async def stream(self, work: Callable[[Connection], Iterator[T]]) -> AsyncGenerator[T, None]:
        """Yield what a unit of work yields, while it sees the database at one moment."""
        if self.path == MEMORY:
            # Its one connection would keep every other call waiting for the caller's next step.
            for item in await self.write(lambda connection: list(work(connection))):
                yield item
            return
        if not self._exists():
            raise cannot_open(self.path)
        with translating(self.path):
            engine = self._readers.current()
            async with engine.connect() as connection:
                await connection.run_sync(begin_snapshot)
                items = await connection.run_sync(work)
                while (item := await connection.run_sync(lambda _: next(items, _END))) is not _END:
                    yield item

    async def _read(self, work: Callable[[Connection], T]) -> T:
        with translating(self.path):
            engine = self._readers.current()
            async with engine.connect() as connection:
                return await connection.run_sync(work)

    async def migrate(self) -> None:
        """Bring the file to the newest revision."""
        if self._exists() and await self.read(_is_current):
            return
        if self._must_exist and not self._exists():
            message = f"There is no file {self.path}, and `mode=rw` forbids to make it."
            raise StorageError(message, code="cannot_open")
        async with migrate.one_at_a_time():
            await self.write(_upgrade)

    async def close(self) -> None:
        """Close this object's connections; the writer when its last user closes it."""
        await self._readers.aclose()
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is None or self._pid != os.getpid():
            return
        if self.path == MEMORY or _writers.release(self.path, writer):
            await closing(writer.close())

    def _exists(self) -> bool:
        return self.path != MEMORY and os.path.isfile(self.path)

    def _acquire(self) -> _Writer:
        with self._lock:
            if self._writer is None or self._pid != os.getpid():
                self._pid = os.getpid()
                # An in-memory database is private to its object.
                self._writer = (
                    _Writer(MEMORY) if self.path == MEMORY else _writers.acquire(self.path)
                )
            return self._writer
