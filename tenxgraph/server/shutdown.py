"""Shutdown: answer the requests that a server cancels when its time to end is over."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenxgraph.server.problems import answer

__all__ = ["AnswerOnShutdown", "OpenRequests", "close_in_time"]

logger = logging.getLogger("tenxgraph.server")

# Seconds that a cancelled request has to end in, as a stream does with its last event.
_LAST_SECONDS = 5.0


class OpenRequests:
    """The requests of an application that are not answered yet."""

    def __init__(self) -> None:
        self._handling: set[asyncio.Future[None]] = set()

    def add(self, handling: "asyncio.Future[None]") -> None:
        """Add a request, by the task that answers it."""
        self._handling.add(handling)
        handling.add_done_callback(self._handling.discard)

    async def answered(self) -> None:
        """Wait until each of them is answered."""
        while self._handling:
            await asyncio.wait(set(self._handling))


class AnswerOnShutdown:
    """Middleware that answers with 503 where the server cancels a request.

    uvicorn cancels the requests that are still there after `timeout_graceful_shutdown`, and would
    answer them with a bare 500 and log a traceback for each. A request whose answer has begun, such
    as a stream, ends it by itself.

    Args:
        app: the application.
        requests: where requests are registered until they are answered.
    """

    def __init__(self, app: ASGIApp, requests: OpenRequests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = cancelled = False

        async def watched(message: Message) -> None:
            nonlocal begun
            if cancelled and not begun:
                return  # it was answered with 503
            begun = True
            await send(message)

        # A task of its own, so that the answer does not wait for what ignores a cancellation.
        handling = asyncio.ensure_future(_completed(self._app(scope, receive, watched)))
        self._requests.add(handling)
        try:
            await asyncio.shield(handling)
        except asyncio.CancelledError:
            cancelled = True
            handling.cancel()
            if not begun:
                error = HTTPException(503, "The server is shutting down. Send the request again.")
                await answer(error)(scope, receive, send)
            await asyncio.wait({handling}, timeout=_LAST_SECONDS)


async def _completed(call: Awaitable[None]) -> None:
    await call


async def close_in_time(
    close: Callable[[], Awaitable[None]], requests: OpenRequests, seconds: float
) -> None:
    """Close something and answer the last requests, but not for longer than so many seconds.

    The event loop ends after this: what is not sent by then never is.
    """
    closing = asyncio.ensure_future(_completed(close()))
    ending = {closing, asyncio.ensure_future(requests.answered())}
    _, late = await asyncio.wait(ending, timeout=seconds)
    for task in late:
        task.cancel()
    if closing in late:
        logger.warning("Closing the graph took more than %g seconds, and was given up.", seconds)
    else:
        await closing
