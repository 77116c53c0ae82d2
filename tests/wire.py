"""A PostgreSQL connection, listened to: how often the client waits for the server."""

import asyncio
import struct
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Self
from urllib.parse import urlsplit

from servers.server import at_port

# The messages after which a client waits: Query and Sync.
# https://www.postgresql.org/docs/current/protocol-message-formats.html
_AWAITED = b"QS"
_HEADER = 5
_SSL_REQUEST = b"\x00" + struct.pack("!II", 8, 80877103)


class WireTap:
    """Forwards a port of 127.0.0.1 to a server, and counts round trips."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._target = parts.hostname, parts.port
        self.round_trips = 0
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._done = asyncio.Event()
        self._thread = Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        self._loop = started.result()

    def through(self, dsn: str) -> str:
        """The same DSN, by way of the tap."""
        return at_port(dsn, self._port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    async def _serve(self, started: "Future[asyncio.AbstractEventLoop]") -> None:
        server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self._port: int = server.sockets[0].getsockname()[1]
        started.set_result(asyncio.get_running_loop())
        await self._done.wait()
        server.close()

    async def _join(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(*self._target)
        await asyncio.gather(
            _forward(client, to_server, _Messages(self._count).feed),
            _forward(server, to_client, lambda _: None),
        )

    def _count(self, kind: bytes) -> None:
        if kind in _AWAITED:
            self.round_trips += 1


class _Messages:
    """Cuts a client's bytes into messages. Those that open the session have no kind: here, NUL."""

    def __init__(self, report: Callable[[bytes], None]) -> None:
        self._report = report
        self._buffer = b"\x00"

    def feed(self, chunk: bytes) -> None:
        self._buffer += chunk
        while len(self._buffer) >= _HEADER:
            length = 1 + int.from_bytes(self._buffer[1:_HEADER])
            if len(self._buffer) < length:
                return
            message, self._buffer = self._buffer[:length], self._buffer[length:]
            self._report(message[:1])
            if message == _SSL_REQUEST:
                self._buffer = b"\x00" + self._buffer


async def _forward(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, see: Callable[[bytes], None]
) -> None:
    while chunk := await source.read(65536):
        see(chunk)
        target.write(chunk)
        await target.drain()
    target.close()
