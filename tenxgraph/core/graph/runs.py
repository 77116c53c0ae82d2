"""Runs: those of a graph that go on in this process, in whatever event loop."""

import asyncio
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tenxgraph.core.graph.run import Run

__all__ = ["Runs"]

_current: ContextVar[Run | None] = ContextVar("run", default=None)
"""The run that this code is part of."""


class Runs:
    """Knows the runs that go on, so that they can be stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going_on: dict[Run, Hashable] = {}

    @contextmanager
    def going_on(self, run: Run, key: Hashable) -> Iterator[None]:
        """While a run goes on.

        Args:
            run: the run.
            key: what it is known by to whoever stops it: its thread.
        """
        with self._lock:
            self._going_on[run] = key
        outer = _current.set(run)
        try:
            yield
        finally:
            _current.reset(outer)
            with self._lock:
                del self._going_on[run]
            run.over.set_result(None)

    def stop(self, key: Hashable) -> None:
        """Stop those that are known by a key."""
        with self._lock:
            runs = [run for run, known in self._going_on.items() if known == key]
        for run in runs:
            run.stop()

    async def end(self, timeout: float) -> None:
        """Stop all, those that begin meanwhile too, and wait for them, if not for ever.

        A run that does this itself goes on.
        """
        deadline = time.monotonic() + timeout
        while runs := self._others():
            for run in runs:
                run.stop()
            left = max(0.0, deadline - time.monotonic())
            await asyncio.wait([asyncio.wrap_future(run.over) for run in runs], timeout=left)
            if time.monotonic() >= deadline:
                return

    def _others(self) -> list[Run]:
        own = _current.get()
        with self._lock:
            return [run for run in self._going_on if run is not own]
