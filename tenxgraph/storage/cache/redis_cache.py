"""RedisCache: get, put, drop. Redis failing is a miss, never an error."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

from tenxgraph._optional import require
from tenxgraph.storage.cache import entry
from tenxgraph.storage.cache.breaker import Breaker, Kind
from tenxgraph.storage.cache.clients import LoopClients, RedisUrl
from tenxgraph.storage.cache.key import companion_key
from tenxgraph.storage.cache.owed import Doubts, OwedDrops
from tenxgraph.storage.cache.scripts import DROP, PUT, PUT_DONE, Script
from tenxgraph.storage.cache.stats import CacheStats

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

__all__ = ["Found", "RedisCache"]

_ARRIVAL_SECONDS = 30
_FENCE_SECONDS = 3600
# Larger ones would not come through within `timeout`, and so look as if Redis were away.
_LARGEST_VALUE = 16 * 1024 * 1024
_SHORTEST_WAIT = 0.1


class Found(NamedTuple):
    """What a look into the cache has shown."""

    value: bytes | None
    seen: str | None
    """To be shown by a later `put`: it must not write what was read before a drop. `None`: Redis
    did not answer."""


class RedisCache:
    """Values of threads in Redis, each with its time to live.

    Args:
        url: the server, as `RedisUrl` reads it.
        client: a `redis.asyncio` client instead; it is never closed here.
        ttl: seconds that an entry lives after its last write.
        timeout: seconds that a call may take before it counts as failed.

    Raises:
        ValueError: not exactly one of URL and client, or a number that is not positive.
        ImportError: redis is not installed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: "Redis | RedisCluster | None" = None,
        ttl: int = 86400,
        timeout: float = 0.25,
    ) -> None:
        require("redis.asyncio", extra="postgres", wanted_by="The Redis cache")
        if (url is None) == (client is None):
            message = "Pass either `redis_url` or `redis`, and not both."
            raise ValueError(message)
        self._ttl = _positive("cache_ttl", ttl, int)
        self._timeout = float(_positive("cache_timeout", timeout, int, float))
        self._client = _checked_client(client)
        self._name = "its own client's address"
        if url is not None:
            address = RedisUrl(url)
            self._name = repr(address)
            self._clients = LoopClients(address, self._timeout, self._interrupted)
        self.stats = CacheStats()
        self._breaker = Breaker(self._name)
        self._owed = OwedDrops()
        self._doubts = Doubts(self._ttl)
        self._payments: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]]
        self._payments = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"RedisCache({self._name})"

    @property
    def is_away(self) -> bool:
        """Whether a call would not even be tried now."""
        return self._breaker.is_open

    async def get(self, key: str) -> Found:
        """The value at `key`, if there is one to be had."""
        if not await self._settled(key):
            return Found(None, None)
        found = await self._call(
            "read", lambda c: c.execute_command("MGET", key, _fence(key), NEVER_DECODE=True)
        )
        if found is None:
            return Found(None, None)
        value, fence = found
        return Found(value, _seen(fence, entry.life_of(value) if value else ""))

    async def look(self, key: str) -> str | None:
        """What a `get` would have `seen`, without the value."""
        if not await self._settled(key):
            return None
        found = await self._call(
            "read", lambda c: c.execute_command("MGET", _fence(key), NEVER_DECODE=True)
        )
        return None if found is None else _seen(found[0], "")

    async def put(
        self, key: str, value: bytes, *, version: int, life: str, seen: str | None
    ) -> bool:
        """Write the value of a committed version; whether it was written.

        It is not if a newer version is there, or if the entry has been dropped since `seen`. If
        it should have been but was not, what is there instead will not be read by this process.
        """
        if seen is None or len(value) > _LARGEST_VALUE:
            self.stats.skipped += 1
            await self._drop(key, version)
            return False
        answer = None
        try:
            answer = await self._call(
                "write", lambda c: _put(c, self._put_of(key, value, version, life, seen))
            )
        finally:
            if answer is None:  # be it for an error, or because the caller was cancelled
                self._owe(key, version)
        written: bool = answer == PUT_DONE
        if written:
            self.stats.refreshes += 1
            self._owed.take(key)
            self._doubts.clear(key)
        else:
            self.stats.skipped += 1
        return written

    def skip(self, key: str, version: int) -> None:
        """Give up a `put` beforehand, because Redis is away; what is there will not be read."""
        self.stats.skipped += 1
        self._owe(key, version)

    async def drop(self, key: str, *, floor: int | None = None) -> None:
        """Remove the entry, at once or as soon as Redis is back.

        Args:
            key: of the entry.
            floor: the lowest version that may be written again by those who have read before;
                `None`: nothing that they have read may be.
        """
        self.stats.invalidations += 1
        await self._drop(key, floor)

    def doubts(self, key: str) -> bool:
        """Whether an entry might be left from before an interruption, and wants to be checked."""
        return self._doubts.about(key)

    def vouch(self, key: str) -> None:
        """The entry has been found to be right."""
        self._doubts.clear(key)

    async def close(self) -> None:
        """Give back the connections that this object made."""
        payment = self._payments.pop(asyncio.get_running_loop(), None)
        if payment is not None:
            payment.cancel()
            while (owed := self._owed.take()) is not None and await self._drop(*owed):
                pass
        if self._client is None:
            await self._clients.close()

    async def _settled(self, key: str) -> bool:
        """Whether nothing is owed for the key, or not any more."""
        owed = self._owed.take(key)
        return owed is None or await self._drop(*owed)

    async def _drop(self, key: str, floor: int | None) -> bool:
        epoch = uuid4().hex if floor is None else ""
        call = _Call(DROP, [key, _fence(key)], [epoch, floor or 0, _FENCE_SECONDS])
        answer = None
        try:
            answer = await self._call("write", lambda c: _run(c, call))
        finally:
            if answer is None:
                self._owe(key, floor)
        return answer is not None

    def _put_of(self, key: str, value: bytes, version: int, life: str, seen: str) -> "_Put":
        arrival = companion_key(key, f"new:{uuid4().hex}")
        epoch, _, seen_life = seen.partition("/")
        call = _Call(PUT, [key, arrival, _fence(key)], [version, life, self._ttl, epoch, seen_life])
        return _Put(arrival, value, call)

    async def _call(self, kind: Kind, command: Callable[[Any], Awaitable[Any]]) -> Any:
        """What Redis answers; `None` if it does not, in time."""
        if not self._breaker.allows():
            return None
        try:
            async with asyncio.timeout(self._timeout):
                answer = await command(self._client or await self._clients.current())
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not break a run
            self.stats.errors += 1
            self._interrupted()
            self._breaker.failed(kind, error)
            return None
        self._breaker.succeeded(kind)
        return answer

    def _interrupted(self) -> None:
        self._doubts.raise_()

    def _owe(self, key: str, floor: int | None) -> None:
        self._owed.add(key, floor)
        loop = asyncio.get_running_loop()
        payment = self._payments.get(loop)
        if payment is None or payment.done():
            self._payments[loop] = loop.create_task(self._pay(), name="tenxgraph-cache")

    async def _pay(self) -> None:
        """Make up for what could not be done, as soon as Redis is back."""
        while self._owed:
            await asyncio.sleep(max(self._breaker.wait(), _SHORTEST_WAIT))
            owed = self._owed.take()
            if owed is not None:
                await self._drop(*owed)


class _Call(NamedTuple):
    script: Script
    keys: list[str]
    arguments: list[str | int]


class _Put(NamedTuple):
    arrival: str
    value: bytes
    guard: _Call


async def _put(client: Any, put: _Put) -> Any:
    """Send the value and have it checked in: one round trip, whatever its size."""
    if hasattr(client, "nodes_manager"):  # a cluster's pipelines know no scripts
        await client.set(put.arrival, put.value, ex=_ARRIVAL_SECONDS)
        return await _run(client, put.guard)
    call = put.guard
    pipeline = client.pipeline(transaction=False)
    pipeline.set(put.arrival, put.value, ex=_ARRIVAL_SECONDS)
    pipeline.evalsha(call.script.sha, len(call.keys), *call.keys, *call.arguments)
    sent, answer = await pipeline.execute(raise_on_error=False)
    if _is_unknown_script(answer):
        answer = await client.eval(call.script.text, len(call.keys), *call.keys, *call.arguments)
    for outcome in (sent, answer):
        if isinstance(outcome, Exception):
            raise outcome
    return answer


async def _run(client: Any, call: _Call) -> Any:
    arguments = (len(call.keys), *call.keys, *call.arguments)
    try:
        return await client.evalsha(call.script.sha, *arguments)
    except Exception as error:
        if not _is_unknown_script(error):
            raise
    return await client.eval(call.script.text, *arguments)


def _is_unknown_script(answer: object) -> bool:
    exceptions = require("redis.exceptions", extra="postgres", wanted_by="The Redis cache")
    return isinstance(answer, exceptions.NoScriptError)


def _fence(key: str) -> str:
    return companion_key(key, "fence")


def _seen(fence: bytes | None, life: str) -> str:
    epoch = (fence or b"").partition(b":")[0].decode("ascii", "replace")
    return f"{epoch}/{life}"


def _positive(name: str, value: Any, *kinds: type) -> Any:
    if type(value) not in kinds or not value > 0:
        message = f"`{name}` must be more than 0, not {value!r}."
        raise ValueError(message)
    return value


def _checked_client(client: Any) -> Any:
    if client is not None and not asyncio.iscoroutinefunction(
        getattr(client, "execute_command", None)
    ):
        message = "`redis` must be a client of `redis.asyncio`."
        raise ValueError(message)
    return client
