"""A PostgreSQL database: its connections, and how a unit of work survives the loss of one."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import greenlet_spawn

from tenxgraph._optional import require
from tenxgraph._per_loop import PerLoop
from tenxgraph.storage.sql import migrate
from tenxgraph.storage.sql.dsn import PostgresDsn
from tenxgraph.storage.sql.engine_closing import close_engine
from tenxgraph.storage.sql.errors import (
    is_connection_lost,
    is_plan_outdated,
    is_wrong_transaction,
    translating,
)

__all__ = ["PostgresDatabase", "PostgresOptions", "engine_for"]

R = TypeVar("R")
T = TypeVar("T")

_END: Any = object()

# Said once per connection, as a statement of its own would be one more round trip for each write.
_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
}
_SET_TRANSACTION = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"


class PostgresOptions:
    """How to connect.

    Args:
        pgbouncer: a transaction pooler is in between: every command runs in a transaction, no
            statement stays prepared, no connection is kept.
        pool_size: connections kept open per event loop.
        max_overflow: connections opened beyond them under load.
        pool_timeout: seconds to wait for one to become free.
        connect_timeout: seconds to wait for a new connection.
        command_timeout: seconds to wait for an answer, after which the connection is given up.
    """

    def __init__(
        self,
        *,
        pgbouncer: bool = False,
        pool_size: int = 10,
        max_overflow: int = 10,
        pool_timeout: float = 30.0,
        connect_timeout: float = 10.0,
        command_timeout: float = 60.0,
    ) -> None:
        self.pgbouncer = pgbouncer
        self.pool_size = pool_size
        self.max_overflow = max_overflow
        self.pool_timeout = pool_timeout
        self.connect_timeout = connect_timeout
        self.command_timeout = command_timeout


def engine_for(dsn: PostgresDsn, options: PostgresOptions) -> AsyncEngine:
    """A new engine. asyncpg reads the URL itself, so TLS is exactly what it says."""
    asyncpg = require("asyncpg", extra="postgres", wanted_by="PostgreSQL")
    pgbouncer = options.pgbouncer or dsn.pgbouncer

    settings = {} if pgbouncer else dict(_SETTINGS)

    async def connect() -> Any:
        try:
            return await open_connection()
        except asyncpg.exceptions.ProtocolViolationError:
            if not settings:
                raise
            # A pooler that keeps sessions, but passes no settings on; see `_carried_out`.
            settings.clear()
            return await open_connection()

    async def open_connection() -> Any:
        return await asyncpg.connect(
            dsn=dsn.url,
            timeout=dsn.connect_timeout or options.connect_timeout,
            command_timeout=options.command_timeout,
            server_settings=settings,
            **({"statement_cache_size": 0} if pgbouncer else {}),
        )

    engine = _unpooled(connect) if pgbouncer else _pooled(connect, options)
    _carry_json_as_text(engine)
    _close_in_time(engine)
    return engine


def _pooled(connect: Callable[[], Awaitable[Any]], options: PostgresOptions) -> AsyncEngine:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        isolation_level="AUTOCOMMIT",
        pool_size=options.pool_size,
        max_overflow=options.max_overflow,
        pool_timeout=options.pool_timeout,
        pool_recycle=1800,
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "checkout", _refuse_if_closed)
    return engine


def _unpooled(connect: Callable[[], Awaitable[Any]]) -> AsyncEngine:
    """For a transaction pooler: statements without a name end with their transaction.

    A named one would stay on one of the pooler's connections, where the next client that comes
    upon the same name fails.
    """

    def adapted() -> Any:
        dialect: Any = engine.dialect
        return dialect.dbapi.connect(
            async_creator_fn=connect,
            prepared_statement_cache_size=0,
            prepared_statement_name_func=lambda: "",
        )

    engine = create_async_engine(
        "postgresql+asyncpg://", creator=adapted, poolclass=NullPool, hide_parameters=True
    )
    return engine


def _refuse_if_closed(connection: Any, _record: Any, _proxy: Any) -> None:
    """Pass over a connection that the server has closed while it was idle.

    The event loop has seen the end of the socket, so this costs no round trip, where a ping at
    every checkout would double those of a write.
    """
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _carry_json_as_text(engine: AsyncEngine) -> None:
    """Leave JSON to asyncpg's own codec, which is text in and text out like ours.

    SQLAlchemy would ask the server about the two JSON types on each new connection, outside of
    any transaction, which a transaction pooler answers from two different servers.
    """

    async def leave_as_it_is(_connection: Any) -> None:
        return

    dialect: Any = engine.dialect
    dialect.setup_asyncpg_json_codec = leave_as_it_is
    dialect.setup_asyncpg_jsonb_codec = leave_as_it_is


def _close_in_time(engine: AsyncEngine) -> None:
    """Give a server that does not answer two seconds to see us off, not `command_timeout`."""
    dialect: Any = engine.dialect
    dialect.do_close = dialect.do_terminate


class PostgresDatabase:
    """Runs units of work: a query or a single statement as it is, several in a transaction."""

    def __init__(
        self,
        source: PostgresDsn | AsyncEngine,
        schema: str,
        options: PostgresOptions,
    ) -> None:
        self.schema = schema
        self._explicit = False
        self._engine: AsyncEngine | None = None
        if isinstance(source, AsyncEngine):
            self.place = f"PostgreSQL at {source.url.host}/{source.url.database}"
            self._engine = source.execution_options(isolation_level="AUTOCOMMIT")
            self._statement_level = True
        else:
            self.place = source.place
            self._statement_level = not (options.pgbouncer or source.pgbouncer)
            self._engines = PerLoop(lambda: engine_for(source, options), close_engine)

    async def engine(self) -> AsyncEngine:
        """The engine of the running loop, or the one that was handed in."""
        return self._engine or self._engines.current()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run queries; once more on a new connection if the server has gone away."""
        return await self._again(self._read, work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a unit of work, which may be repeated, in one transaction."""
        return await self._again(self._write, work)

    async def once(self, work: Callable[[Connection], T]) -> T:
        """Run one statement, and let the driver's errors through to a caller who knows them."""
        return await self._carried_out(self._once, work)

    async def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run a unit of work in one transaction, and let the driver's errors through."""
        return await self._carried_out(self._transaction, work)

    async def _carried_out(
        self,
        run: Callable[[Callable[[Connection], T]], Awaitable[T]],
        work: Callable[[Connection], T],
    ) -> T:
        """Run a unit of work, and again where the server refused it whole for a passing reason."""
        explicit = self._explicit
        try:
            return await (self._transaction if explicit else run)(work)
        except DBAPIError as error:
            if is_wrong_transaction(error) and not explicit:
                # The database's default is another one, and this connection does not say ours:
                # it is the engine of the caller's, or behind a pooler.
                self._explicit = True
            elif not is_plan_outdated(error):
                raise
            return await (self._transaction if self._explicit else run)(work)

    async def _once(self, work: Callable[[Connection], T]) -> T:
        engine = await self.engine()

        # All in one: to switch between the loop and SQLAlchemy for each step on its own costs as
        # much as the statement's whole way through the driver.
        def run() -> T:
            with engine.sync_engine.connect() as connection:
                result = work(connection)
                if not self._statement_level:
                    connection.commit()
                return result

        return await greenlet_spawn(run)

    async def _transaction(self, work: Callable[[Connection], T]) -> T:
        engine = await self.engine()
        async with engine.connect() as connection:
            await self._leave_autocommit(connection)
            async with connection.begin():
                if self._explicit:
                    await connection.exec_driver_sql(_SET_TRANSACTION)
                return await connection.run_sync(work)

    async def stream(self, work: Callable[[Connection], Iterator[T]]) -> AsyncGenerator[T, None]:
        """Yield what a unit of work yields, while it sees the database at one moment."""
        with translating(self.place):
            opened, connection, items, item = await self._again(self._begin_stream, work)
            async with opened:
                while item is not _END:
                    yield item
                    item = await connection.run_sync(lambda _: next(items, _END))

    async def _begin_stream(self, work: Callable[[Connection], Iterator[T]]) -> Any:
        """Open a snapshot and fetch the first item, so that a lost connection can be replaced."""
        engine = await self.engine()
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(engine.connect())
            await connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            await stack.enter_async_context(connection.begin())
            items = await connection.run_sync(work)
            first = await connection.run_sync(lambda _: next(items, _END))
            return stack.pop_all(), connection, items, first

    async def migrate(self) -> None:
        """Bring the schema to the newest revision."""
        with translating(self.place):
            if await self._again(self._read, lambda c: migrate.is_current(c, self.schema)):
                return
            async with migrate.one_at_a_time():
                await self.transaction(lambda c: migrate.upgrade(c, self.schema))

    async def close(self) -> None:
        """Close what this object made; an engine that was handed in stays open."""
        if self._engine is None:
            await self._engines.aclose()

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await self.once(work)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await self.transaction(work)

    async def _again(
        self,
        run: Callable[[Callable[[Connection], T]], Awaitable[R]],
        work: Callable[[Connection], T],
    ) -> R:
        with translating(self.place):
            try:
                result = await run(work)
            except (DBAPIError, OSError) as error:
                if not is_connection_lost(error) or isinstance(error, TimeoutError):
                    raise
                result = await run(work)
            return result

    async def _leave_autocommit(self, connection: AsyncConnection) -> None:
        if self._statement_level:
            await connection.execution_options(isolation_level="READ COMMITTED")
