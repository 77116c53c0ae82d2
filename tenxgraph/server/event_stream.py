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
_TOO_SLOW = b'event: error\ndata: {"code":"too_slow","detail":"More happened than was read."}\n\n'


class Events:
    """Events on their way to a reader, who may be slow, or gone.

    Args:
        on_overflow: called when more waits than is kept for a reader, who takes nothing: who is
            told so and dropped then.
        most_bytes: how much that is.
    """

    def __init__(self, on_overflow: Callable[[], None], most_bytes: int = _MOST_BYTES) -> None:
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._most = most_bytes
        self._taken_at = self._loop.time()
        self._on_overflow = on_overflow
        self._open = True

    def put(self, name: str, data: Mapping[str, Any]) -> None:
        """Tell of an event; from any thread, and without waiting."""
        if not self._open:
            return
        event = b"event: %b\ndata: %b\n\n" % (name.encode(), to_bytes(data))
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
            self._taken_at = self._loop.time()  # a reader who has all is not slow
        if self._is_too_much():
            self.drop()
            self._queue.put_nowait(_TOO_SLOW)
            self.end()
            self._on_overflow()
            return
        self._waiting += len(event)
        self._queue.put_nowait(event)

    def _is_too_much(self) -> bool:
        """Whether more waits than there should, and not only since a moment ago."""
        silent = self._loop.time() - self._taken_at > _PATIENCE
        return self._waiting > (self._most if silent else self._most * _BURST)


class EventStream(Response):
    """Sends events until there are no more, or nobody reads them.

    Args:
        events: what is sent.
        on_end: called when the last one was sent, or the reader has gone.
    """

    def __init__(self, events: Events, on_end: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(media_type="text/event-stream", headers=headers)
        del self.headers["content-length"]
        self._events = events
        self._on_end = on_end

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # Here, and not in a generator that somebody else may leave lying about half read.
        parts = {asyncio.ensure_future(self._send(send)), asyncio.ensure_future(_left(receive))}
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._events.drop()
            self._on_end()
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        while (event := await self._events.get()) is not None:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """Wait until the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
