"""The loop thread: an event loop of the library's own, on which the sync API does its work."""

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, wait
from typing import Any, Generic, TypeVar

__all__ = ["CLOSING_TIMEOUT", "PATIENCE", "LoopThread", "is_blocked", "loop_thread"]

R = TypeVar("R")

PATIENCE = 10.0
"""Seconds that a caller who is interrupted waits until the work has taken note of it."""

CLOSING_TIMEOUT = 2.0
"""Seconds that closing waits at most: for a server, and for the resources of other loops."""

# A resource may need all of `CLOSING_TIMEOUT` before it is closed by force.
_FAREWELL = CLOSING_TIMEOUT + 1.0

_blocked: set[asyncio.AbstractEventLoop] = set()


def is_blocked(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if the loop waits inside a sync call, and so cannot do anything else."""
    return loop in _blocked


class LoopThread:
    """An event loop that runs in a daemon thread of this very process."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tenxgraph-sync", daemon=True)
        self._thread.start()
        atexit.register(self._say_farewell)

    @property
    def is_alive(self) -> bool:
        """Whether anything would run on it; a forked child has none of its parent's threads."""
        return self._pid == os.getpid() and self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether this is the very thread that asks."""
        return threading.current_thread() is self._thread

    def run(self, function: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Call a coroutine function; return what it returns or raises.

        A caller who is interrupted, as by Ctrl-C, takes the call along: it is cancelled, and the
        caller goes on when it has ended, or after `PATIENCE`.
        """
        call = _Call(function, self._loop)
        with _blocking_the_running_loop():
            try:
                call.begin()
                return call.ended.result()
            except BaseException:
                if not call.ended.done():
                    call.cancel()
                    wait([call.ended], PATIENCE)
                raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            # Raised by one task, and told to its caller, but the loop is everybody's.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()

    def _say_farewell(self) -> None:
        """Give back what was opened on the loop, as `asyncio.run` does at its end.

        A server that does not answer must not keep the interpreter from ending. The loop goes on,
        as other code that runs at the end may need it.
        """
        if self.is_alive:
            farewell = asyncio.run_coroutine_threadsafe(self._loop.shutdown_asyncgens(), self._loop)
            wait([farewell], _FAREWELL)


class _Call(Generic[R]):
    """A call at work on a loop, for a caller in another thread."""

    def __init__(
        self, function: Callable[[], Coroutine[Any, Any, R]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.ended: Future[R] = Future()
        """What became of it, known when it is really over, also if it was cancelled."""
        self._function = function
        self._loop = loop
        self._task: asyncio.Task[R] | None = None

    def begin(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> asyncio.Task[R]:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._end)
        return self._task

    async def _run(self) -> R:
        return await self._function()

    def _cancel(self) -> None:
        # The caller may have been interrupted before there was anything to cancel.
        task = self._task or self._begin()
        task.cancel()

    def _end(self, task: asyncio.Task[R]) -> None:
        error = CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.ended.set_result(task.result())
        else:
            self.ended.set_exception(error)


@contextlib.contextmanager
def _blocking_the_running_loop() -> Iterator[None]:
    """Let others know that the loop of this thread, if it runs one, cannot act for a while."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    try:
        _blocked.add(loop)
        yield
    finally:
        _blocked.discard(loop)


_lock = threading.Lock()
_current: LoopThread | None = None


def loop_thread() -> LoopThread:
    """The loop thread of this process."""
    global _current
    current = _current
    if current is not None and current.is_alive:
        return current
    with _lock:
        if _current is None or not _current.is_alive:
            _current = LoopThread()
        return _current


def _renew_lock_after_fork() -> None:
    """A lock held by another thread at the moment of a fork would stay locked in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock_after_fork)
