"""The thread that carries out background writes, and what happens to them at the very end."""

import asyncio
import atexit

# Loaded before the hook below is registered, so that the hook runs before thread pools are shut:
# a write that still needs one, if only to resolve a host name, would fail after that.
import concurrent.futures.thread
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from tenxgraph.storage.store.pool import started_pool

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tenxgraph.storage.store.pending import PendingWrites

__all__ = ["flush_all", "hook_sigterm", "run", "watch"]

R = TypeVar("R")

logger = logging.getLogger("tenxgraph.store")

_LAST_DEADLINE = 10.0
_THREADS = 4

_lock = threading.RLock()
_thread: "_WriterThread | None" = None
_stores: "weakref.WeakSet[PendingWrites]" = weakref.WeakSet()
_running: "set[Future[Any]]" = set()
_exit_hooked = False


class _WriterThread:
    """An event loop of its own: a slow embedder must hold up neither the caller nor the sync API.

    A daemon, because the end of the interpreter is waited for by a hook with a deadline.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(started_pool(_THREADS, "tenxgraph-memory"))
        threading.Thread(target=self._serve, name="tenxgraph-memory", daemon=True).start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


def run(coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
    """Run a coroutine in the writer thread; coroutines begin in the order in which they come."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = _WriterThread()
        _hook_exit()
        hook_sigterm()
        future = asyncio.run_coroutine_threadsafe(coroutine, _thread.loop)
    # An event loop holds its tasks weakly: without this, one could be collected while it waits.
    _running.add(future)
    future.add_done_callback(_running.discard)
    return future


def watch(writes: "PendingWrites") -> None:
    """Have these writes flushed when the process ends."""
    _stores.add(writes)


def flush_all(timeout: float = _LAST_DEADLINE) -> int:
    """Wait for the writes of all stores, name in the log what did not land, and count it."""
    deadline = time.monotonic() + timeout
    left = 0
    for writes in list(_stores):
        writes.leave_unpromised()
        for future, write in writes.on_their_way().items():
            try:
                future.exception(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                left += 1
                logger.error("The process ends before a promised memory is saved: %s", write)
            except concurrent.futures.CancelledError:
                continue
    return left


def _hook_exit() -> None:
    global _exit_hooked
    if _exit_hooked:
        return
    _exit_hooked = True
    # atexit comes after thread pools are shut: what needs one, as a local Qdrant does, would fail.
    # What comes before has no public name; a Python without it lands what needs no pool.
    register: Callable[[Callable[[], Any]], Any]
    register = getattr(threading, "_register_atexit", atexit.register)
    register(flush_all)


def hook_sigterm() -> None:
    """Have SIGTERM wait for all writes; only in the main thread, where Python lets one ask for it.

    An application that has a handler keeps it.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _flush_and_die)


def _flush_and_die(signum: int, _frame: FrameType | None) -> None:
    """Keep the promises, then end exactly as the signal would have ended the process.

    Only installed where the application has no handler of its own: one that shuts down in an
    orderly way comes to the hook at the interpreter's end by itself.
    """
    flush_all()
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def _forget_parent() -> None:
    """A forked child has none of its parent's threads, and must not repeat its writes."""
    global _lock, _thread
    _lock = threading.RLock()
    _thread = None
    _running.clear()
    for writes in list(_stores):
        writes.forget_parent()


os.register_at_fork(after_in_child=_forget_parent)
