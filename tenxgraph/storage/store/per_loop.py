"""Clients that belong to an event loop: one for each loop that uses them."""

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["PerLoop"]

Client = TypeVar("Client")


class PerLoop(Generic[Client]):
    """Makes a client, or a lock, for each running event loop, and forgets it with the loop.

    An async HTTP client keeps sockets of the loop it was first used in. A store, though, is used
    from `asyncio.run` twice in a row, from the sync twins and from background writes.
    """

    def __init__(
        self,
        make: Callable[[], Client],
        close: Callable[[Client], Awaitable[None]] | None = None,
    ) -> None:
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = (
            weakref.WeakKeyDictionary()
        )

    def get(self) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._clients:
                self._clients[loop] = self._make()
            return self._clients[loop]

    async def aclose(self) -> None:
        """Close the clients of all loops that still run; the others went with their loop."""
        with self._lock:
            clients = list(self._clients.items())
            self._clients.clear()
        here = asyncio.get_running_loop()
        for loop, client in clients:
            if loop is here:
                await self._closing(client)
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(self._closing(client), loop)
                await asyncio.wrap_future(closing)

    async def _closing(self, client: Client) -> None:
        if self._close is not None:
            await self._close(client)
