"""RedisCache: get, put, drop. Redis failing is a miss, never an error."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

from tenxgraph._optional import require
from tenxgraph.storage.cache import entry
from tenxgraph.storage.cache.breaker import Breaker, Kind
from tenxgraph.storage.cache.clients import LoopClients, RedisUrl
from tenxgraph.storage.cache.commands import Call, Put, run, run_put
from tenxgraph.storage.cache.entry import Change
from tenxgraph.storage.cache.key import companion_key
from tenxgraph.storage.cache.owed import Doubts, OwedDrops
from tenxgraph.storage.cache.scripts import DROP, EXTEND, PUT, PUT_DONE
from tenxgraph.storage.cache.stats import CacheStats

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

__all__ = ["Found", "RedisCache"]

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
        self._closing = False

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
        self,
        key: str,
        value: bytes,
        *,
        version: int,
        life: str,
        seen: str | None,
        change: Change | None = None,
    ) -> bool:
        """Write the value of a committed version; whether it was written.

        It is not if a newer version is there, or if the entry has been dropped since `seen`. If
        it should have been but was not, what is there instead will not be read by this process.
        With a `change`, only that is sent where it fits what is there.
        """
        if seen is None or len(value) > _LARGEST_VALUE or not await self._settled(key):
            self.stats.skipped += 1
            await self._drop(key, version)
            return False
        put = self._put_of(key, value, version, life, seen)
        if change is not None:
            put = put._replace(extension=self._extension_of(key, change, version, seen))
        answer = await self._owing(key, version, lambda c: run_put(c, put))
        written: bool = answer == PUT_DONE
        if written:
            self.stats.refreshes += 1
            self._owed.paid(key, version)
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
        self._closing = True
        try:
            if payment is not None:
                payment.cancel()
                while (owed := self._owed.oldest()) is not None and await self._drop(*owed):
                    pass
            if self._client is None:
                await self._clients.aclose()
        finally:
            self._closing = False

    async def _settled(self, key: str) -> bool:
        """Whether nothing is owed for the key, or not any more."""
        owed = self._owed.get(key)
        return owed is None or await self._drop(*owed)

    async def _drop(self, key: str, floor: int | None) -> bool:
        epoch = uuid4().hex if floor is None else ""
        call = Call(DROP, [key, _fence(key)], [epoch, floor or 0, _FENCE_SECONDS])
        dropped = await self._owing(key, floor, lambda c: run(c, call)) is not None
        if dropped:
            self._owed.paid(key, floor)
        return dropped

    def _put_of(self, key: str, value: bytes, version: int, life: str, seen: str) -> Put:
        arrival = companion_key(key, f"new:{uuid4().hex}")
        epoch, _, seen_life = seen.partition("/")
        call = Call(PUT, [key, arrival, _fence(key)], [version, life, self._ttl, epoch, seen_life])
        return Put(arrival, value, call)

    def _extension_of(self, key: str, change: Change, version: int, seen: str) -> Call:
        epoch = seen.partition("/")[0]
        return Call(EXTEND, [key, _fence(key)], [*change, version, self._ttl, epoch])

    async def _call(self, kind: Kind, command: Callable[[Any], Awaitable[Any]]) -> Any:
        """What Redis answers; `None` if it does not, in time."""
        if not self._breaker.allows():
            return None
        try:
            async with asyncio.timeout(self._timeout):
                answer = await command(self._client or self._clients.current())
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not break a run
            self.stats.errors += 1
            self._interrupted()
            self._breaker.failed(kind, error)
            _raise_if_cancelled(error)
            return None
        self._breaker.succeeded(kind)
        if self._owed:
            self._begin_to_pay()
        return answer

    def _interrupted(self) -> None:
        self._doubts.raise_()

    async def _owing(
        self, key: str, floor: int | None, command: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """What Redis answers to a write; if it does not, a drop is owed."""
        try:
            answer = await self._call("write", command)
        except asyncio.CancelledError:
            self._owed.add(key, floor)  # and no task: the loop may be about to end
            raise
        if answer is None:
            self._owe(key, floor)
        return answer

    def _owe(self, key: str, floor: int | None) -> None:
        self._owed.add(key, floor)
        self._begin_to_pay()

    def _begin_to_pay(self) -> None:
        if self._closing:
            return
        loop = asyncio.get_running_loop()
        payment = self._payments.get(loop)
        if payment is None or payment.done():
            self._payments[loop] = loop.create_task(self._pay(), name="tenxgraph-cache")

    async def _pay(self) -> None:
        """Make up for what could not be done, as soon as Redis is back."""
        while (owed := self._owed.oldest()) is not None:
            if not await self._drop(*owed):
                await asyncio.sleep(max(self._breaker.wait(), _SHORTEST_WAIT))


def _raise_if_cancelled(error: Exception) -> None:
    """Do not lose a cancellation that a client, or an expired timeout, has made an error of."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


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
    if client is not None and not inspect.iscoroutinefunction(
        getattr(client, "execute_command", None)
    ):
        message = "`redis` must be a client of `redis.asyncio`."
        raise ValueError(message)
    return client
