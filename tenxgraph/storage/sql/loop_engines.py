"""Engines are made lazily, one per running event loop, and end with their loop."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable
from weakref import WeakKeyDictionary

from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["LoopEngines"]


# Seconds after which another loop, which has not closed its engine, is taken to be blocked.
_BLOCKED = 1.0


async def _dispose_with_loop(engine: AsyncEngine) -> AsyncGenerator[None, None]:
    """Wait for the end of the loop.

    A loop closes the async generators that were started on it before it closes itself: so
    `asyncio.run` ends with every connection given back, and none left to the garbage collector.
    """
    try:
        yield
    finally:
        await engine.dispose()


class _Held:
    def __init__(self, engine: AsyncEngine, guard: AsyncGenerator[None, None]) -> None:
        self.engine = engine
        self.guard = guard
        self.pid = os.getpid()


class LoopEngines:
    """The engines of one database, by event loop."""

    def __init__(self, make: Callable[[], AsyncEngine]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held] = WeakKeyDictionary()

    async def current(self) -> AsyncEngine:
        """The engine of the running loop.

        After a fork the child makes its own: a connection shared by two processes is a garbled one.
        """
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None or held.pid != os.getpid():
            engine = self._make()
            held = _Held(engine, _dispose_with_loop(engine))
            with self._lock:
                self._held[loop] = held
            await anext(held.guard)
        return held.engine

    async def close(self) -> None:
        """Close the engines of all loops that still run, each on its own loop."""
        with self._lock:
            held, self._held = list(self._held.items()), WeakKeyDictionary()
        here = asyncio.get_running_loop()
        for loop, one in held:
            if one.pid != os.getpid():
                one.engine.sync_engine.dispose(close=False)
            elif loop is here:
                await one.guard.aclose()
            elif loop.is_running():
                future = asyncio.run_coroutine_threadsafe(one.guard.aclose(), loop)
                # A loop that waits for this very call, by a sync method, does it afterwards.
                await asyncio.wait((asyncio.wrap_future(future),), timeout=_BLOCKED)
