"""HostCheck: refuse requests that name another host than this server.

Without it, a web page can let its own name resolve to 127.0.0.1 (DNS rebinding), and then read and
write as if it were served from here.
"""

import ipaddress
from collections.abc import Iterable

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tenxgraph.server.problems import answer
from tenxgraph.server.settings import FILE_NAME

__all__ = ["HostCheck"]


class HostCheck:
    """Middleware that compares the `Host` header with the names of this server.

    Args:
        app: the application.
        allowed: names, `*.example.com` for all subdomains, or `*` for any. `None`: a connection to
            a loopback address must name this machine; other connections may name any host.
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str] | None = None) -> None:
        self._app = app
        self._allowed = None if allowed is None else [name.lower() for name in allowed]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            name = _host_name(Headers(scope=scope).get("host", ""))
            if not self._is_allowed(name, scope):
                words = (
                    f"The `Host` header names {name[:80]!r}, which this server does not serve. "
                    f"If it should, add the name to `allowed_hosts` in {FILE_NAME}."
                )
                await answer(HTTPException(400, words))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_allowed(self, name: str, scope: Scope) -> bool:
        if self._allowed is not None:
            return any(_matches(name, pattern) for pattern in self._allowed)
        server = scope.get("server")
        return server is None or not _is_loopback(server[0]) or _names_this_machine(name)


def _host_name(header: str) -> str:
    """Return the name in a `Host` header, without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower().rstrip(".")


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return name.endswith(pattern[1:])
    return pattern in ("*", name)


def _names_this_machine(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
