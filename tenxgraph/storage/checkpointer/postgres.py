"""PostgresCheckpointer: the durable layer on PostgreSQL, without a cache."""

from typing import TYPE_CHECKING, Any

from tenxgraph._optional import require
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.checkpointer._options import refuse_unknown_options
from tenxgraph.storage.checkpointer.durable import DurableCheckpointer
from tenxgraph.storage.sql.dsn import PostgresDsn

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["PostgresCheckpointer"]


_LONGEST_IDENTIFIER = 63


class PostgresCheckpointer(DurableCheckpointer[StateT]):
    """Threads in PostgreSQL.

    Args:
        postgres_dsn: `postgresql://`, `postgres://` or `postgresql+asyncpg://`, with libpq's
            `sslmode` and the rest.
        engine: an `AsyncEngine` on asyncpg instead of a DSN; it is never closed here.
        schema: the PostgreSQL schema of the tables.
        state_history_limit: how many snapshots of each thread are kept.
        enforce_user_isolation: whether threads belong to the `user_id` of the config.
        connection: how to connect, by the names of `PostgresOptions`: `pgbouncer`, `pool_size`,
            `max_overflow`, `pool_timeout`, `connect_timeout`, `command_timeout`.

    Raises:
        ValueError: not exactly one of DSN and engine, no PostgreSQL, or no name for a schema.
        TypeError: an option is not known; names those that are.
        ImportError: asyncpg is not installed.
    """

    def __init__(
        self,
        postgres_dsn: str | None = None,
        *,
        engine: "AsyncEngine | None" = None,
        schema: str = "public",
        state_history_limit: int = 20,
        enforce_user_isolation: bool = True,
        **connection: Any,
    ) -> None:
        # Here, not above: SQLAlchemy is loaded by whoever needs it, not by every import.
        from tenxgraph.storage.sql.backend import PostgresBackend
        from tenxgraph.storage.sql.postgres_database import PostgresDatabase, PostgresOptions

        require("asyncpg", extra="postgres", wanted_by=type(self).__name__)
        refuse_unknown_options(type(self), connection, PostgresOptions)
        self.schema = _checked_schema(schema)
        self._source = _checked_source(postgres_dsn, engine)
        database = PostgresDatabase(self._source, self.schema, PostgresOptions(**connection))
        super().__init__(
            PostgresBackend(database),
            state_history_limit=state_history_limit,
            enforce_user_isolation=enforce_user_isolation,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source!r}, schema={self.schema!r})"


def _checked_source(dsn: str | None, engine: object) -> "PostgresDsn | AsyncEngine":
    if (dsn is None) == (engine is None):
        message = "Pass either `postgres_dsn` or `engine`, and not both."
        raise ValueError(message)
    if engine is None:
        return PostgresDsn.parse(dsn or "")
    from sqlalchemy.ext.asyncio import AsyncEngine

    if not isinstance(engine, AsyncEngine) or engine.dialect.driver != "asyncpg":
        message = "`engine` must be an AsyncEngine on postgresql+asyncpg://."
        raise ValueError(message)
    return engine


def _checked_schema(schema: object) -> str:
    """A schema's name; it is quoted wherever it is used, so any identifier will do."""
    if (
        not isinstance(schema, str)
        or not schema
        or "\x00" in schema
        or len(schema.encode()) > _LONGEST_IDENTIFIER
    ):
        message = f"`schema` must be an identifier of 1 to 63 bytes, not {schema!r}."
        raise ValueError(message)
    return schema
