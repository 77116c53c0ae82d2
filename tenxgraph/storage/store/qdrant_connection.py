"""How a Qdrant is reached: in this process, or over the network. Its errors end here."""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tenxgraph._per_loop import PerLoop, closing
from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.pool import started_pool

if TYPE_CHECKING:
    from concurrent.futures import Future

    from qdrant_client import AsyncQdrantClient, QdrantClient

__all__ = ["LocalQdrant", "QdrantConnection", "RemoteQdrant"]


class QdrantConnection(Protocol):
    """Calls methods of a Qdrant client by name; a failure is `StoreError`."""

    is_local: bool

    async def call(self, method: str, **arguments: Any) -> Any:
        """Call the client's method of this name and return its result."""

    async def aclose(self) -> None:
        """Close the connection. The next call opens it again."""


class RemoteQdrant:
    """A Qdrant server, through one async client for each event loop.

    Args:
        where: the client's own arguments that say where the server is.
        timeout: seconds that one request may take.
    """

    is_local = False

    def __init__(self, where: dict[str, Any], timeout: int) -> None:
        self._where = where
        self._timeout = timeout
        self._clients = PerLoop(self._connect, lambda client: client.close())

    def __repr__(self) -> str:
        shown = {name: value for name, value in self._where.items() if name != "api_key"}
        return f"Qdrant({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    async def call(self, method: str, **arguments: Any) -> Any:
        """Call the client's method of this name and return its result."""
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ApiException

        try:
            return await getattr(self._clients.current(), method)(**arguments)
        except (QdrantException, ApiException, OSError, ValueError, RuntimeError) as error:
            raise StoreError(f"{self!r} failed at {method}: {_brief(error)}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    def _connect(self) -> "AsyncQdrantClient":
        from qdrant_client import AsyncQdrantClient

        # The version check would be a blocking request in the middle of an event loop.
        return AsyncQdrantClient(**self._where, timeout=self._timeout, check_compatibility=False)


class LocalQdrant:
    """A Qdrant inside this process, in a folder or in memory.

    The folder can be open once, so everyone in the process who names it shares one client. Its
    work (a commit for each point, a scan for each search) is done in a thread of its own, where it
    neither blocks an event loop nor runs beside itself.

    Args:
        path: the folder, or `":memory:"`.
    """

    is_local = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._worker = _worker_for(self._path)

    def __repr__(self) -> str:
        return f"Qdrant(path={self._path!r})"

    async def call(self, method: str, **arguments: Any) -> Any:
        """Call the client's method of this name and return its result."""
        future = self._worker.submit(lambda: self._call(method, arguments))
        return await asyncio.wrap_future(future)

    async def aclose(self) -> None:
        """Close the client if no other store of this process uses it."""
        try:
            closed = self._worker.submit(lambda: self._worker.leave(self))
        except RuntimeError:  # the program is at its end, where the hook below closes it
            return
        await closing(closed)

    def _call(self, method: str, arguments: dict[str, Any]) -> Any:
        try:
            return getattr(self._worker.client_for(self), method)(**arguments)
        except (OSError, ValueError, RuntimeError) as error:
            if "already accessed" in str(error):
                raise StoreError(
                    f"The folder {self._path!r} is in use by another process. A local Qdrant "
                    "serves one process: use a Qdrant server (`url=` or `host=`) for several."
                ) from error
            raise StoreError(f"{self!r} failed at {method}: {_brief(error)}") from error


class _Worker:
    """The one thread, and the one client, of a folder."""

    def __init__(self, location: dict[str, Any]) -> None:
        self._location = location
        self._users: weakref.WeakSet[LocalQdrant] = weakref.WeakSet()
        self._client: QdrantClient | None = None
        self._clients_of_parents: list[Any] = []
        self._begin()

    def submit(self, job: Callable[[], Any]) -> "Future[Any]":
        """Do a job in the thread, after those before it."""
        if self._pid != os.getpid():
            self._begin_as_a_child()
        return self._thread.submit(job)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._thread = started_pool(1, "tenxgraph-qdrant")

    def _begin_as_a_child(self) -> None:
        """Begin a thread, which a fork does not copy; a folder stays with the parent."""
        if "path" in self._location and self._client is not None:
            # Not closed, not even by the garbage collector: that would unlock the folder.
            self._clients_of_parents.append(self._client)
            self._client = None
        self._begin()

    def client_for(self, user: LocalQdrant) -> "QdrantClient":
        """The client, which stays open until all its users have left. Only in the thread."""
        from qdrant_client import QdrantClient

        self._users.add(user)
        if self._client is None:
            # All calls come from one thread, but the last one, which closes it, may not.
            self._client = QdrantClient(**self._location, force_disable_check_same_thread=True)
        return self._client

    def close_at_exit(self) -> None:
        """Close the client of stores that nobody closed, once the thread has ended."""
        if self._client is not None:
            self._client.close()

    def leave(self, user: LocalQdrant) -> None:
        """Close the client if this was its last user. Only in the thread."""
        self._users.discard(user)
        in_memory = "location" in self._location
        if self._client is not None and not self._users and not in_memory:
            self._client.close()
            self._client = None


_lock = threading.Lock()
_workers: dict[tuple[int, str], _Worker] = {}


def _worker_for(path: str) -> _Worker:
    if path == ":memory:":
        return _Worker({"location": path})
    folder = str(Path(path).expanduser().resolve())
    with _lock:
        # A forked child has the dict but not the threads.
        key = (os.getpid(), folder)
        if key not in _workers:
            _workers[key] = _Worker({"path": folder})
        return _workers[key]


@atexit.register
def _close_all() -> None:
    """A client that is left to the end of the interpreter complains that it cannot close itself."""
    for (pid, _), worker in _workers.items():
        if pid == os.getpid():
            worker.close_at_exit()


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
