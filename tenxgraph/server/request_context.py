"""RequestContext: give each request an id, and write one line of access log for it."""

import logging
import re
import time
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["RequestContext", "RequestIds", "current_ids", "name_run"]

logger = logging.getLogger("tenxgraph.access")

_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)


@dataclass(slots=True)
class RequestIds:
    """The ids of a request: its own, and those of the run that it asks for."""

    request_id: str
    thread_id: str | None = None
    run_id: str | None = None

    def named(self) -> dict[str, str]:
        """Return the ids that are known, by name."""
        ids = {"request_id": self.request_id, "thread_id": self.thread_id, "run_id": self.run_id}
        return {name: value for name, value in ids.items() if value is not None}


_current: ContextVar[RequestIds | None] = ContextVar("request_ids", default=None)


def current_ids() -> dict[str, str]:
    """Return the ids of the request that this code works for, by name; empty outside of one."""
    ids = _current.get()
    return {} if ids is None else ids.named()


def name_run(thread_id: str, run_id: str) -> None:
    """Add the ids of a run to those of the current request."""
    ids = _current.get()
    if ids is not None:
        ids.thread_id, ids.run_id = thread_id, run_id


class RequestContext:
    """Middleware that sets the ids of each request, answers with `X-Request-ID`, and logs it.

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
        ids = RequestIds(_request_id(scope))
        token = _current.set(ids)
        started, status = time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = ids.request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            _log(scope, status, (time.monotonic() - started) * 1000)
            _current.reset(token)


def _request_id(scope: Scope) -> str:
    """Return the id that a client or proxy has given the request, or a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid4().hex


def _log(scope: Scope, status: int, milliseconds: float) -> None:
    # The raw path is percent-encoded: a decoded one could hold line breaks that forge log lines.
    # The query string is left out: it may hold what users search for.
    path = scope.get("raw_path") or scope["path"].encode("ascii", "replace")
    path = path.partition(b"?")[0].decode("ascii", "replace")
    logger.info(
        "%s %s %d %.1f ms",
        scope["method"],
        path,
        status,
        milliseconds,
        extra={
            "method": scope["method"],
            "path": path,
            "status": status,
            "duration_ms": round(milliseconds, 1),
        },
    )
