"""The sync API, derived from the async one: every twin runs on one private loop thread.

A twin may be called from plain code, from a thread, and from inside a running event loop (which
it blocks, but never deadlocks, since the work happens on a loop of its own).
"""

import asyncio
import atexit
import contextlib
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["run_sync", "sync_iterator_twin", "sync_twin"]

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner")

_END = object()
_FAREWELL = 2.0


class _LoopThread:
    """An event loop that runs in a daemon thread of this very process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="tenxgraph-sync", daemon=True)
        self.thread.start()
        atexit.register(self.end)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def end(self) -> None:
        """Give back what was opened on the loop, as `asyncio.run` does at its end.

        A server that does not answer must not keep the interpreter from ending.
        """
        if self.pid != os.getpid():
            return
        farewell = asyncio.run_coroutine_threadsafe(self.loop.shutdown_asyncgens(), self.loop)
        with contextlib.suppress(TimeoutError):
            farewell.result(_FAREWELL)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(_FAREWELL)


_lock = threading.Lock()
_current: _LoopThread | None = None


def _loop_thread() -> _LoopThread:
    """The loop thread of this process; a forked child has none of its parent's threads."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = _LoopThread()
        return _current


def _renew_lock_after_fork() -> None:
    """A lock held by another thread at the moment of a fork would stay locked in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock_after_fork)


def run_sync(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on the private loop thread and return what it returns or raises."""
    runner = _loop_thread()
    if threading.current_thread() is runner.thread:
        coroutine.close()
        message = (
            "A sync method was called from inside the sync API's own loop. Call the method whose "
            "name begins with `a` and await it."
        )
        raise RuntimeError(message)
    future = asyncio.run_coroutine_threadsafe(coroutine, runner.loop)
    try:
        return future.result()
    except BaseException:
        # KeyboardInterrupt: the caller has gone, so the work must not go on unobserved.
        future.cancel()
        raise


def sync_twin(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Owner, P], R]:
    """Make the sync form of an async method; a subclass that overrides the method is followed."""
    name = method.__name__

    @functools.wraps(method, updated=())  # not its mark of being abstract
    def twin(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, Coroutine[Any, Any, R]] = getattr(self, name)
        return run_sync(bound(*args, **kwargs))

    twin.__name__ = name.removeprefix("a")
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Do what `{name}` does, and wait for it."
    return twin


def sync_iterator_twin(
    method: Callable[Concatenate[Owner, P], AsyncIterator[R]],
) -> Callable[Concatenate[Owner, P], Iterator[R]]:
    """Make the sync form of an async generator method."""
    name = method.__name__

    @functools.wraps(method, updated=())  # not its mark of being abstract
    def twin(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        iterator: AsyncIterator[R] = getattr(self, name)(*args, **kwargs)

        async def step() -> Any:
            return await anext(iterator, _END)

        try:
            while (item := run_sync(step())) is not _END:
                yield item
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                run_sync(close())

    twin.__name__ = name.removeprefix("a")
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Do what `{name}` does, item by item, and wait for each."
    return twin
