"""NodeCall: one call of a node, within its time and with an ear for stops."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tenxgraph.core.exceptions import GraphError, NodeError, TenxGraphError

__all__ = ["NodeCall", "StopRequestedError"]

# How much longer than the first the pauses between looks may get.
_LONGEST_PAUSE = 6
# Seconds that a look may take when the node is over: mostly an answer is on its way, and to cut it
# short would cost the connection.
_LAST_LOOK = 1.0


class StopRequestedError(Exception):
    """Somebody asked for a stop, and the node was cancelled for it."""


class NodeCall:
    """A node at work in a task of its own.

    Args:
        node: its name.
        thread_id: the thread that it works on, for errors.
        work: the call.
        timeout: seconds that it may take.
        should_stop: asks whether somebody, in whatever process, wants it to stop.
        pause: seconds before the first look; they grow, as a long call can wait longer for a stop.
    """

    def __init__(
        self,
        node: str,
        thread_id: Any,
        work: Coroutine[Any, Any, Any],
        timeout: float,
        should_stop: Callable[[], Awaitable[bool]],
        pause: float,
    ) -> None:
        self._node = node
        self._thread_id = thread_id
        self._timeout = timeout
        self._should_stop = should_stop
        self._pause = pause
        self._longest_pause = pause * _LONGEST_PAUSE
        self._task = asyncio.ensure_future(work)
        self._look: asyncio.Future[bool] | None = None
        self._stopping = False

    async def result(self) -> Any:
        """What the node returns.

        Raises:
            NodeError: it raised, or took too long.
            StopRequestedError: it was stopped.
        """
        deadline = time.monotonic() + self._timeout
        try:
            # Most nodes that only reckon are over after one turn of the loop: no timer for those.
            await asyncio.sleep(0)
            while not await self._waited(deadline):
                await self._look_for_stop(deadline)
            if not self._task.done():
                message = f"Node {self._node!r} took longer than {self._timeout} s."
                raise NodeError(message, node=self._node)
            return self._taken()
        finally:
            await self._end()

    def stop(self) -> None:
        """Cancel the node, unless a stop has done so before; from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed, and it is over with it
            self._task.get_loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        # Once: the next time it would cut short what the node does to leave things tidy.
        if not self._stopping:
            self._stopping = True
            self._task.cancel()

    async def _waited(self, deadline: float) -> bool:
        """Wait until it is time to look at the stop flag; true when all waiting is over."""
        if not self._task.done():
            left = deadline - time.monotonic()
            await asyncio.wait((self._task,), timeout=max(0.0, min(left, self._pause)))
            self._pause = min(self._pause * 1.5, self._longest_pause)
        return self._task.done() or time.monotonic() >= deadline

    async def _look_for_stop(self, deadline: float) -> None:
        """Ask whether the node is to stop, but let an answer that does not come hold up nothing."""
        self._look = asyncio.ensure_future(self._should_stop())
        self._look.add_done_callback(_noted)
        left = max(0.0, deadline - time.monotonic())
        await asyncio.wait(
            (self._look, self._task), timeout=left, return_when=asyncio.FIRST_COMPLETED
        )
        if self._look.done() and self._look.result():
            self._cancel()

    def _taken(self) -> Any:
        if self._task.cancelled():
            if self._stopping:
                raise StopRequestedError
            raise NodeError(f"Node {self._node!r} cancelled itself.", node=self._node)
        error = self._task.exception()
        if error is None:
            return self._task.result()
        if isinstance(error, Exception) and (
            not isinstance(error, TenxGraphError)
            or self._is_elsewhere(error)
            # What another graph, which the node has run, says of its own input or thread.
            or (isinstance(error, GraphError) and not isinstance(error, NodeError))
        ):
            message = (
                f"Node {self._node!r} of thread {self._thread_id!r} failed: "
                f"{type(error).__name__}: {error}"
            )
            raise NodeError(message, node=self._node) from error
        raise error

    def _is_elsewhere(self, error: TenxGraphError) -> bool:
        """Whether it is about another thread than the run's own, and so the node's own affair."""
        return str(getattr(error, "thread_id", self._thread_id)) != str(self._thread_id)

    async def _end(self) -> None:
        """See to it that node and look are over, and take note of whatever they ended with."""
        self._task.add_done_callback(_noted)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._look is not None and not self._look.done():
            await asyncio.wait((self._look,), timeout=_LAST_LOOK)
            self._look.cancel()


def _noted(ended: asyncio.Future[Any]) -> None:
    """Spare the log an error that nobody waits for any more."""
    if not ended.cancelled():
        ended.exception()
