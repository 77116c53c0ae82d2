"""The backends that one conformance suite runs over, as parameters of a fixture."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tenxgraph.storage.cache import RedisCache
from tenxgraph.storage.checkpointer import (
    BaseCheckpointer,
    CachedCheckpointer,
    InMemoryCheckpointer,
    PgCheckpointer,
    PostgresCheckpointer,
    SqliteCheckpointer,
)

Checkpointer = BaseCheckpointer[Any]

DURABLE = ("memory", "sqlite", "sqlite-memory", "postgres")
CACHED = ("memory+redis", "sqlite+redis", "postgres+redis")


@dataclass
class Backend:
    """One place where threads are kept, and how to open it, again or with other options."""

    name: str
    open: Callable[..., Checkpointer]
    dsn: str | None = None
    """How another process reaches it; `None` where none can."""
    opened: list[Checkpointer] = field(default_factory=list)

    def make(self, **options: Any) -> Checkpointer:
        """A checkpointer on this backend; every one of them sees the same threads."""
        checkpointer = self.open(**options)
        self.opened.append(checkpointer)
        return checkpointer

    async def close(self) -> None:
        for checkpointer in self.opened:
            await checkpointer.aclose()


def on_memory() -> Backend:
    return Backend("memory", _sharing(InMemoryCheckpointer))


def on_sqlite_memory() -> Backend:
    return Backend("sqlite-memory", _sharing(lambda **o: SqliteCheckpointer(":memory:", **o)))


def on_sqlite(path: str) -> Backend:
    return Backend("sqlite", lambda **o: SqliteCheckpointer(path, **o), path)


def on_postgres(dsn: str) -> Backend:
    return Backend("postgres", lambda **o: PostgresCheckpointer(dsn, **o), dsn)


def on_redis(behind: Backend, redis_url: str) -> Backend:
    """Put Redis in front of a backend, and read and write as the run loop does."""
    prefix = f"{uuid4().hex}:"

    def open_cached(**options: Any) -> Checkpointer:
        if behind.name == "postgres":
            return _PgAsInRuns(behind.dsn, redis_url=redis_url, cache_prefix=prefix, **options)
        durable: Any = behind.open(**options)
        return _AsInRuns(durable, RedisCache(redis_url), prefix=prefix)

    return Backend(f"{behind.name}+redis", open_cached, behind.dsn)


class _AsInRuns(CachedCheckpointer[Any]):
    """Reads the cache first and refreshes it after each write, whoever calls."""

    async def aget_state(self, config: Any, version: int | None = None) -> Any:
        if version is None and (cached := await self.aget_state_cache(config)) is not None:
            return cached
        return await super().aget_state(config, version)

    async def aput_checkpoint(self, config: Any, state: Any, *rest: Any, **named: Any) -> Any:
        written = await super().aput_checkpoint(config, state, *rest, **named)
        await self.aput_state_cache(config, written)
        return written


class _PgAsInRuns(_AsInRuns, PgCheckpointer[Any]):
    pass


def _sharing(make: Callable[..., Any]) -> Callable[..., Checkpointer]:
    """Let checkpointers that would each have threads of their own share the first one's."""
    first: list[Any] = []

    def make_sharing(**options: Any) -> Checkpointer:
        checkpointer = make(**options)
        if first:
            checkpointer._backend = first[0]
        else:
            first.append(checkpointer._backend)
        return checkpointer  # type: ignore[no-any-return]

    return make_sharing
