"""A TCP proxy that fails on demand, for clients that must survive it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from threading import Event, Thread
from typing import Self

from servers.server import at_port

_CHUNK = 65536


class _Loss:
    """A reply that shall be lost: the one to the request that contains `after`."""

    def __init__(self, after: bytes) -> None:
        self.after = after
        self.happened = Event()


class _Link:
    """What the two directions of one connection share."""

    loss: _Loss | None = None


class TcpProxy:
    """Forwards 127.0.0.1:`port` to a server, in a thread of its own, until `close`.

    What a method promises is in force when it returns.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: set[asyncio.Task[None]] = set()
        self._armed: _Loss | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._closed = asyncio.Event()
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        self._loop = started.result()

    def through(self, url: str) -> str:
        """The same URL, by way of the proxy."""
        return at_port(url, self.port)

    def freeze(self) -> None:
        """Forward nothing in either direction, while connections stay open and are accepted."""
        self._call(self._flowing.clear)

    def thaw(self) -> None:
        """Forward again, beginning with what was sent while frozen."""
        self._call(self._flowing.set)

    def cut(self) -> None:
        """Close all present connections, on both sides, and drop what is under way in them."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def lose_next_reply(self, after: bytes | None = None) -> Event:
        """Once, deliver a request to the server, swallow its reply, and cut the connection.

        Args:
            after: the bytes by which to know the request, as in `b"COMMIT"`; by default it is
                the next that any client sends.

        Returns:
            An event that is set when the reply was lost: the server has acted, the client will
            not hear of it.
        """
        loss = _Loss(after or b"")
        self._call(lambda: setattr(self, "_armed", loss))
        return loss.happened

    def close(self) -> None:
        """Close all connections and the port."""
        self._call(self._closed.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _call(self, function: Callable[[], object]) -> None:
        async def call() -> None:
            function()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    async def _serve(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        server = await asyncio.start_server(self._connect, sock=self._listener)
        started.set_result(asyncio.get_running_loop())
        await self._closed.wait()
        server.close()
        await self._cut()

    async def _cut(self) -> None:
        await _cancel(self._links)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.create_task(self._join(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _join(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        async with _aborting(to_client):
            await self._flowing.wait()
            try:
                server, to_server = await asyncio.open_connection(*self._target)
            except ConnectionRefusedError:
                return
            async with _aborting(to_server):
                link = _Link()
                directions = {
                    asyncio.create_task(self._forward_requests(link, client, to_server)),
                    asyncio.create_task(self._forward_replies(link, server, to_client)),
                }
                try:
                    await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _cancel(directions)

    async def _forward_requests(
        self, link: _Link, client: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        recent = b""
        async for chunk in self._chunks(client):
            if self._armed:
                recent += chunk
                if self._armed.after in recent:
                    link.loss, self._armed = self._armed, None
                else:  # the bytes may come in two chunks
                    recent = recent[-len(self._armed.after) :]
            to_server.write(chunk)
            await to_server.drain()

    async def _forward_replies(
        self, link: _Link, server: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        async for chunk in self._chunks(server):
            if link.loss:
                link.loss.happened.set()
                return
            to_client.write(chunk)
            await to_client.drain()

    async def _chunks(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while chunk := await reader.read(_CHUNK):
            await self._flowing.wait()
            yield chunk
        await self._flowing.wait()


@contextlib.asynccontextmanager
async def _aborting(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    # Without a buffer, drain() waits until all is sent, and abort() has nothing to drop.
    writer.transport.set_write_buffer_limits(high=0)
    with contextlib.suppress(ConnectionError):
        try:
            yield
        finally:
            writer.transport.abort()
            await writer.wait_closed()


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
