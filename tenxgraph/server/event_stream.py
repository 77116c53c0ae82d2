"""EventStream: what happens, to one reader, as server-sent events."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenxgraph.server.json_text import to_bytes

__all__ = ["EventStream", "Events"]

_PING_AFTER = 15.0
_MOST_BYTES = 8 * 2**20
# Seconds for which a reader may take nothing while that much waits, and how many times as much may
# come at once.
_PATIENCE = 2.0
_BURST = 8
# Seconds that a run has to stop in when the server ends, so that its last events are still sent.
_LAST_SECONDS = 3.0


class Events:
    """Events on their way to a reader, who may be slow, or gone.

    Args:
        ids: the thread and the run, for the last event.
        on_overflow: called when more waits than is kept for a reader, who takes nothing: who is
            told so and dropped then.
        most_bytes: how much that is.
    """

    def __init__(
        self,
        ids: Mapping[str, str],
        on_overflow: Callable[[], None],
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._ids = ids
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._most = most_bytes
        self._taken_at: float | None = None
        self._on_overflow = on_overflow
        self._open = True

    def put(self, name: str, data: Mapping[str, Any]) -> None:
        """Tell of an event; from any thread, and without waiting."""
        if not self._open:
            return
        event = _as_bytes(name, data)
        if threading.get_ident() == self._home:
            self._put(event)
        else:
            self._loop.call_soon_threadsafe(self._put, event)

    def end(self) -> None:
        """Say that nothing comes after this."""
        self._queue.put_nowait(None)

    def drop(self) -> None:
        """Keep nothing any more: nobody reads."""
        self._open = False
        while not self._queue.empty():
            self._queue.get_nowait()

    async def get(self) -> bytes | None:
        """The next event, or a sign of life; `None` behind the last."""
        try:
            event = await asyncio.wait_for(self._queue.get(), _PING_AFTER)
        except TimeoutError:
            return b": ping\n\n"
        self._waiting -= len(event or b"")
        self._taken_at = self._loop.time()
        return event

    def _put(self, event: bytes) -> None:
        if not self._open:
            return
        if self._waiting == 0:
            # A reader who has all is not slow, nor is one who had no turn since.
            self._taken_at = None
            self._loop.call_soon(self._start_waiting)
        if self._is_too_much():
            self.drop()
            self._queue.put_nowait(_as_bytes("error", self._too_slow()))
            self.end()
            self._on_overflow()
            return
        self._waiting += len(event)
        self._queue.put_nowait(event)

    def _start_waiting(self) -> None:
        if self._taken_at is None:
            self._taken_at = self._loop.time()

    def stopped(self) -> bytes:
        """The last event of a run that was stopped."""
        return _as_bytes("end", {**self._ids, "status": "stopped"})

    def _too_slow(self) -> dict[str, Any]:
        told = {"title": "Too slow", "status": 408, "code": "too_slow"}
        return {**told, "detail": "More happened than was read.", **self._ids}

    def _is_too_much(self) -> bool:
        """Whether more waits than there should, and not only since a moment ago."""
        taken_at = self._taken_at
        silent = taken_at is not None and self._loop.time() - taken_at > _PATIENCE
        return self._waiting > (self._most if silent else self._most * _BURST)


class EventStream(Response):
    """Sends events until there are no more, or nobody reads them.

    Args:
        events: what is sent.
        on_end: called when the last one was sent, or the reader has gone.
        on_shutdown: called when the server ends: stops the run, whose last events are still sent.
    """

    def __init__(
        self, events: Events, on_end: Callable[[], None], on_shutdown: Callable[[], None]
    ) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(media_type="text/event-stream", headers=headers)
        del self.headers["content-length"]
        self._events = events
        self._on_end = on_end
        self._on_shutdown = on_shutdown

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # Here, and not in a generator that somebody else may leave lying about half read.
        sending = asyncio.ensure_future(self._send(send))
        parts = {sending, asyncio.ensure_future(_left(receive))}
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The server ends. A stream that is cut without an `end` looks like a lost connection.
            await self._end_early(sending, send)
            raise
        finally:
            self._events.drop()
            self._on_end()
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _end_early(self, sending: "asyncio.Task[None]", send: Send) -> None:
        self._on_shutdown()
        await asyncio.wait({sending}, timeout=_LAST_SECONDS)
        if sending.done():
            return
        sending.cancel()
        await asyncio.wait({sending})
        await send(_body(self._events.stopped()))
        await send(_body(b"", more=False))

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        while (event := await self._events.get()) is not None:
            await send(_body(event))
        await send(_body(b"", more=False))


def _body(data: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _as_bytes(name: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), to_bytes(data))


async def _left(receive: Receive) -> None:
    """Wait until the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
