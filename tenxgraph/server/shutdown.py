"""Shutdown: answer the requests that a server cancels when its time to end is over."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenxgraph.server.problems import answer

__all__ = ["AnswerOnShutdown", "close_in_time"]

logger = logging.getLogger("tenxgraph.server")

# Seconds that a cancelled request has to end in, as a stream does with its last event.
_LAST_SECONDS = 5.0


class AnswerOnShutdown:
    """Middleware that answers with 503 where the server cancels a request.

    uvicorn cancels the requests that are still there after `timeout_graceful_shutdown`, and would
    answer them with a bare 500 and log a traceback for each. A request whose answer has begun, such
    as a stream, ends it by itself.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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


async def close_in_time(close: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Close something, and go on without it if that takes too long."""
    closing = asyncio.ensure_future(_completed(close()))
    done, _ = await asyncio.wait({closing}, timeout=seconds)
    if done:
        await closing
        return
    closing.cancel()
    logger.warning("Closing the graph took more than %g seconds, and was given up.", seconds)
