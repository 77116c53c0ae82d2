"""One resource per event loop and process: a database engine, a Redis or HTTP client, a lock."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from tenxgraph._loop_thread import CLOSING_TIMEOUT, is_blocked

__all__ = ["PerLoop", "closing"]

logger = logging.getLogger("tenxgraph")

R = TypeVar("R")

# Later than any loop lives, and not too late for uvloop, which counts in milliseconds.
_NEVER = 100 * 365 * 24 * 3600.0


class PerLoop(Generic[R]):
    """A resource for each event loop that asks for one.

    A resource is made at first use and closed on its own loop: by `aclose`, when this object is
    garbage collected, or at the end of the loop. A loop that was closed without
    `shutdown_asyncgens` drops its resource. A forked child leaves those of its parent alone.

    Args:
        make: returns a new resource; called inside the running loop.
        close: closes a resource; `None` for one that holds nothing open. A resource must not
            refer to the owner of this object, which could otherwise not be collected.
    """

    def __init__(
        self, make: Callable[[], R], close: Callable[[R], Awaitable[object]] | None = None
    ) -> None:
        self._make = make
        self._close = close or _do_nothing
        # The loop owns its entry. Only lookups are here, and every one is a single step, so
        # there is no lock that another thread could hold at the moment of a fork.
        self._entries: WeakValueDictionary[int, _Entry[R]] = WeakValueDictionary()

    def current(self) -> R:
        """Return the resource of the running loop."""
        loop = asyncio.get_running_loop()
        entry = self._entries.get(id(loop))
        if entry is None or not entry.serves(loop):
            entry = self._entries[id(loop)] = _Entry(loop, self._make(), self._close)
        return entry.resource

    async def aclose(self) -> None:
        """Close the resources of all loops; the next use makes new ones.

        Each is closed by its own loop, for which this waits `CLOSING_TIMEOUT` seconds at most.
        A loop that is blocked by a sync call, as by `close()`, closes its resource after it.
        """
        await closing(*(entry.closed for entry in self._snapshot() if entry.request_close()))

    def _snapshot(self) -> "list[_Entry[R]]":
        entries = [reference() for reference in self._entries.valuerefs()]
        return [entry for entry in entries if entry is not None]

    def __del__(self) -> None:
        for entry in self._snapshot():
            entry.request_close()


async def closing(*futures: "Future[None]") -> None:
    """Wait for what closes elsewhere, `CLOSING_TIMEOUT` seconds at most; raise its errors."""
    if not futures:
        return
    waiting = [asyncio.wrap_future(future) for future in futures]
    done, _ = await asyncio.wait(waiting, timeout=CLOSING_TIMEOUT)
    for future in done:
        future.result()


class _Entry(Generic[R]):
    """A resource, owned by its loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        resource: R,
        close: Callable[[R], Awaitable[object]],
    ) -> None:
        self.resource = resource
        self.closed: Future[None] = Future()
        self._loop = loop
        self._pid = os.getpid()
        self._close = close
        self._is_closing = False
        self._is_ending = False
        self._task: asyncio.Task[None] | None = None
        # A timer is the one thing that a loop holds by a strong reference until it is closed.
        self._hold = loop.call_later(_NEVER, self._stay)
        self._guard = self._close_with_loop()
        # A loop that has ended its generators already warns: it will drop this resource.
        with contextlib.suppress(ResourceWarning):
            _finish(anext(self._guard))

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return True if the resource may be used on this loop, in this process."""
        return self._loop is loop and self._pid == os.getpid() and not self._is_closing

    def request_close(self) -> bool:
        """Have the loop close the resource; may be called from any thread, and repeatedly.

        Returns:
            True if it makes sense to wait until that is done.
        """
        if self._pid != os.getpid():
            return False
        self._is_closing = True
        # A closed loop has dropped the resource, or is about to.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._begin_later)
            return self._loop.is_running() and not is_blocked(self._loop)
        return False

    def _begin_later(self) -> None:
        """Begin one turn later, if there is one.

        `run_until_complete` ends in this turn if its coroutine has ended: a task that begins here
        would be cancelled by `asyncio.run`, or destroyed with a loop that is closed at once.
        """
        self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        if self._task is None and not self.closed.done():
            self._task = self._loop.create_task(self._run(), name="tenxgraph-close")
            self._task.add_done_callback(self._end)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(CLOSING_TIMEOUT):
                await self._close(self.resource)
        except Exception as error:  # noqa: BLE001 - a driver may raise anything; all is saved
            logger.warning("%s did not close in an orderly way: %r", self.resource, error)

    def _end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            # As by the end of `asyncio.run`, which cancels all tasks and then waits for guards.
            self._task = None
            self._begin()
            return
        self._hold.cancel()
        self.closed.set_result(None)
        if not self._is_ending:
            _finish(self._guard.aclose())

    def _stay(self) -> None:
        """Do nothing: this is a reference, not an appointment."""

    async def _close_with_loop(self) -> AsyncGenerator[None, None]:
        """Wait for the end of the loop, which closes its async generators before itself."""
        try:
            yield
        finally:
            self._is_ending = True
            while not self.closed.done() and self._pid == os.getpid():
                self._is_closing = True
                self._begin()
                assert self._task is not None
                await asyncio.wait({self._task})


async def _do_nothing(_resource: object) -> None:
    """Close a resource that holds nothing open."""


def _finish(step: Awaitable[None]) -> None:
    """Run a step of an async generator that does not wait for anything."""
    with contextlib.suppress(StopIteration, StopAsyncIteration):
        step.__await__().send(None)
