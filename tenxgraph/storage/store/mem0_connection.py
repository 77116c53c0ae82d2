"""How a Mem0 is reached: in threads of its own. Its errors end here, and all that it opens."""

import asyncio
import atexit
import contextlib
import importlib
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from tenxgraph._optional import require
from tenxgraph._per_loop import closing
from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.pool import started_pool

__all__ = ["Mem0Config", "Mem0Connection", "Memory"]

R = TypeVar("R")

# Mem0 has no type hints; its classes are Any whether it is installed or not.
Memory = Any
Mem0Config = Any

_open: "weakref.WeakSet[Mem0Connection]" = weakref.WeakSet()
_LOCAL_PROVIDERS = ("qdrant", "chroma", "faiss")


class Mem0Connection:
    """One `mem0.Memory`, opened at first use; what fails in it is `StoreError`.

    Args:
        config: a `mem0` `MemoryConfig`.
    """

    def __init__(self, config: Mem0Config) -> None:
        self.memory: Memory = None
        self._config = config
        self._opening = threading.Lock()
        self._threads = started_pool(1 if _is_local(config) else 8, "tenxgraph-mem0")

    async def run(self, work: Callable[[Memory], R]) -> R:
        """Do some work on the `Memory`, in one of the threads."""

        def job() -> R:
            try:
                return work(self._opened())
            except Exception as error:
                # Mem0 passes on whatever its database, embedder and history raise.
                raise StoreError(f"Mem0 failed. {type(error).__name__}: {error}") from error

        return await asyncio.wrap_future(self._threads.submit(job))

    async def aclose(self) -> None:
        """Close all that Mem0 has opened. The next work opens it again."""
        try:
            closed = self._threads.submit(self.close_now)
        except RuntimeError:  # the program is at its end, where the hook below closes it
            return
        await closing(closed)

    def close_now(self) -> None:
        """Close all that Mem0 has opened, in this thread."""
        memory, self.memory = self.memory, None
        if memory is not None:
            memory.close()
            for client in _clients(memory, self._config):
                client.close()

    def _opened(self) -> Memory:
        with self._opening:
            if self.memory is None:
                mem0 = require("mem0", extra="mem0", wanted_by="Mem0Store")
                _let_any_thread_close(self._config)
                self.memory = mem0.Memory(self._config)
                _open.add(self)
            return self.memory


@atexit.register
def _close_all() -> None:
    """A local Qdrant that is left to the end of the interpreter complains that it cannot close."""
    for connection in list(_open):
        connection.close_now()


def _is_local(config: Mem0Config) -> bool:
    """Whether the database is inside this process, where it must not run beside itself."""
    database = config.vector_store
    remote = any(getattr(database.config, name, None) for name in ("url", "host", "client"))
    return database.provider in _LOCAL_PROVIDERS and not remote


def _let_any_thread_close(config: Mem0Config) -> None:
    """Have a local Qdrant take calls from any thread, as `QdrantStore` asks for by an argument.

    Mem0 passes no such argument on. Left to itself, Qdrant asks SQLite what is allowed, through a
    connection that it leaves to the garbage collector, and may then refuse to be closed at exit.
    """
    if config.vector_store.provider == "qdrant" and _is_local(config):
        # Not public. A Qdrant without it decides for itself, as it would have done.
        with contextlib.suppress(ImportError, AttributeError):
            persistence = importlib.import_module("qdrant_client.local.persistence")
            persistence.CollectionPersistence.CHECK_SAME_THREAD = False


def _clients(memory: Memory, config: Mem0Config) -> list[Any]:
    """What its parts talk through, which Mem0 leaves open; not what the application gave it."""
    given = getattr(config.vector_store.config, "client", None)
    found = [getattr(part, "client", None) for part in vars(memory).values()]
    # Two collections of one database share a client.
    own = {id(client): client for client in found if client is not given}
    return [client for client in own.values() if hasattr(client, "close")]
