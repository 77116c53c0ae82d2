"""PgCheckpointer: PostgreSQL for what must last, Redis for what must be fast."""

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.cache.redis_cache import RedisCache
from tenxgraph.storage.checkpointer.cached import CachedCheckpointer
from tenxgraph.storage.checkpointer.postgres import PostgresCheckpointer

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster
    from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["PgCheckpointer"]


class PgCheckpointer(CachedCheckpointer[StateT]):
    """Threads in PostgreSQL, and the newest state of each in Redis as well. For many workers.

    Run `setup()` once before the first request. What was handed in, an engine or a Redis client,
    is never closed here.

    Args:
        postgres_dsn: `postgresql://`, `postgres://` or `postgresql+asyncpg://`, with libpq's
            `sslmode` and the rest.
        engine: an `AsyncEngine` on asyncpg instead of a DSN.
        redis_url: `redis://`, `rediss://` or `unix://`; `redis+cluster://host:port` for a Redis
            Cluster, `redis+sentinel://host:port,host:port/service/db` for Sentinel; both with
            `rediss` for TLS.
        redis: a client of `redis.asyncio` instead of a URL, of a cluster too.
        schema: the PostgreSQL schema of the tables.
        cache_ttl: seconds that a cached state lives after its last write.
        state_history_limit: how many snapshots of each thread are kept.
        enforce_user_isolation: whether threads belong to the `user_id` of the config.
        cache_prefix: put before each Redis key, to keep deployments in one Redis apart.
        cache_timeout: seconds that Redis has for an answer.
        verify_cached_version: whether each cached state is checked against the thread's version by
            a look-up in PostgreSQL before it is used.
        connection: how to connect to PostgreSQL: `pgbouncer`, `pool_size`, `max_overflow`,
            `pool_timeout`, `connect_timeout`, `command_timeout`.

    Raises:
        ValueError: not exactly one of DSN and engine, or of Redis URL and client; or one of these
            is none.
        ImportError: asyncpg or redis is not installed; names the extra.
    """

    def __init__(  # noqa: PLR0913 - two servers have much to be said about
        self,
        postgres_dsn: str | None = None,
        *,
        engine: "AsyncEngine | None" = None,
        redis_url: str | None = None,
        redis: "Redis | RedisCluster | None" = None,
        schema: str = "public",
        cache_ttl: int = 86400,
        state_history_limit: int = 20,
        enforce_user_isolation: bool = True,
        cache_prefix: str = "",
        cache_timeout: float = 0.25,
        verify_cached_version: bool = False,
        **connection: Any,
    ) -> None:
        cache = RedisCache(redis_url, client=redis, ttl=cache_ttl, timeout=cache_timeout)
        durable: PostgresCheckpointer[StateT] = PostgresCheckpointer(
            postgres_dsn,
            engine=engine,
            schema=schema,
            state_history_limit=state_history_limit,
            enforce_user_isolation=enforce_user_isolation,
            **connection,
        )
        if engine is not None:
            database = engine.url.database or ""
        else:
            database = unquote(urlsplit(postgres_dsn or "").path.lstrip("/"))
        super().__init__(
            durable,
            cache,
            prefix=cache_prefix,
            origin=f"{database}/{schema}",
            verify_cached_version=verify_cached_version,
        )
        self.schema = schema
