"""Redis clients by URL, one per running event loop; they end with their loop."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit
from weakref import WeakMethod, WeakSet

from tenxgraph._optional import require
from tenxgraph._per_loop import PerLoop

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

__all__ = ["LoopClients", "RedisUrl"]

_logger = logging.getLogger("tenxgraph.cache")

_WANTED_BY = "The Redis cache"
_SCHEMES = ("redis", "rediss", "unix")
_SENTINEL_PORT = 26379


class RedisUrl:
    """A Redis URL, checked; its `repr` shows no password.

    `redis://`, `rediss://` and `unix://` as redis-py reads them, `redis+cluster://` and
    `rediss+cluster://` for any node of a Redis Cluster, and
    `redis+sentinel://[user:password@]host:port[,host:port]/service/db`, or with `rediss`, for what
    the sentinels name as the master; `?sentinel_password=` where they want one, too.

    Raises:
        ValueError: it is none of these; the message does not repeat it.
    """

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._scheme, _, self._kind = self._parts.scheme.partition("+")
        if self._scheme not in _SCHEMES or self._kind not in ("", "cluster", "sentinel"):
            message = (
                "`redis_url` must begin with redis://, rediss:// or unix://, or with "
                "redis+cluster:// or redis+sentinel://, like redis://localhost:6379/0."
            )
            raise ValueError(message)
        if self._kind == "sentinel":
            self._sentinels()

    def __repr__(self) -> str:
        location = self._parts.netloc.rpartition("@")[2] or self._parts.path
        return f"{self._parts.scheme}://{location}"

    def connect(self, options: dict[str, Any]) -> "Redis | RedisCluster":
        """A new client; `options` are those of a connection."""
        asyncio_ = require("redis.asyncio", extra="postgres", wanted_by=_WANTED_BY)
        if self._kind == "sentinel":
            return self._master(options)
        url = urlunsplit(self._parts._replace(scheme=self._scheme))
        if self._kind == "cluster":
            without_hook = {k: v for k, v in options.items() if k != "redis_connect_func"}
            cluster: RedisCluster = asyncio_.RedisCluster.from_url(url, **without_hook)
            return cluster
        client: Redis = asyncio_.Redis.from_url(url, **options)
        return client

    def _sentinels(self) -> tuple[list[tuple[str, int]], str, str]:
        hosts = []
        for host in self._parts.netloc.rpartition("@")[2].split(","):
            name, _, port = host.rpartition(":") if ":" in host else (host, "", "")
            hosts.append((name.strip("[]"), int(port or _SENTINEL_PORT)))
        service, _, db = self._parts.path.strip("/").partition("/")
        if not service or not all(name for name, _ in hosts):
            message = "A sentinel URL must be like redis+sentinel://host:26379/service/0."
            raise ValueError(message)
        return hosts, unquote(service), db or "0"

    def _master(self, options: dict[str, Any]) -> "Redis":
        sentinel = require("redis.asyncio.sentinel", extra="postgres", wanted_by=_WANTED_BY)
        hosts, service, db = self._sentinels()
        user, _, password = self._parts.netloc.rpartition("@")[0].partition(":")
        query = parse_qs(self._parts.query)
        tls: dict[str, Any] = {"ssl": True} if self._scheme == "rediss" else {}
        to_sentinels = {k: v for k, v in options.items() if k.startswith("socket_")} | tls
        to_sentinels["password"] = query.get("sentinel_password", [None])[0]
        group = sentinel.Sentinel(hosts, sentinel_kwargs=to_sentinels)
        client: Redis = group.master_for(
            service,
            db=int(db),
            username=unquote(user) or None,
            password=unquote(password) or None,
            **options,
            **tls,
        )
        return client


class LoopClients(PerLoop["Redis | RedisCluster"]):
    """The clients of one server, by event loop.

    Args:
        url: the server.
        timeout: seconds that a connection or an answer may take.
        on_reconnect: a method; called when a connection that was lost has been made again.
    """

    def __init__(self, url: RedisUrl, timeout: float, on_reconnect: Callable[[], None]) -> None:
        options = _options(timeout, _Greeting(on_reconnect).greet)
        super().__init__(lambda: url.connect(options), _close_with_sentinels)


class _Greeting:
    """Begins each connection, and reports those that were made again.

    Clients have it, and must not keep alive whoever listens.
    """

    def __init__(self, on_reconnect: Callable[[], None]) -> None:
        self._on_reconnect = WeakMethod(on_reconnect)
        self._known: WeakSet[Any] = WeakSet()

    async def greet(self, connection: Any) -> None:
        """Do what a client does on each new connection."""
        await connection.on_connect()
        report = self._on_reconnect()
        if connection in self._known and report is not None:
            report()
        self._known.add(connection)


def _options(timeout: float, greet: Callable[[Any], Awaitable[None]]) -> dict[str, Any]:
    retry = require("redis.asyncio.retry", extra="postgres", wanted_by=_WANTED_BY)
    backoff = require("redis.backoff", extra="postgres", wanted_by=_WANTED_BY)
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        # Once more, at once: for a connection that the server has closed while it was idle.
        "retry": retry.Retry(backoff.NoBackoff(), 1),
        "redis_connect_func": greet,
    }


async def _close_with_sentinels(client: Any) -> None:
    sentinel = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    for one in (client, *getattr(sentinel, "sentinels", ())):
        await _close(one)


async def _close(client: Any) -> None:
    exceptions = require("redis.exceptions", extra="postgres", wanted_by=_WANTED_BY)
    try:
        await client.aclose()
    except (exceptions.RedisError, OSError) as error:
        # Expendable to the last: a Redis that is slow to say goodbye has lost nothing.
        _logger.warning("A connection to Redis did not close in an orderly way: %s", error)
