"""The backend that keeps its rows in SQL tables, on either dialect."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Protocol, TypeVar
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from tenxgraph.storage.backend import (
    Archive,
    ArchivePage,
    Committed,
    Head,
    Lease,
    MessageQuery,
    Ranges,
    StateRow,
    StoredMessage,
    ThreadQuery,
    ToolRow,
    Write,
)
from tenxgraph.storage.records import StateSnapshot, ThreadInfo
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql import migrate
from tenxgraph.storage.sql.archive import Archives
from tenxgraph.storage.sql.dialect import Dialect
from tenxgraph.storage.sql.errors import is_connection_lost, is_unique_violation, translating
from tenxgraph.storage.sql.lost_answer import LostAnswer
from tenxgraph.storage.sql.messages import Messages
from tenxgraph.storage.sql.models import tables
from tenxgraph.storage.sql.one_query_read import OneQueryRead
from tenxgraph.storage.sql.postgres import OneStatementWrite, PostgresDialect
from tenxgraph.storage.sql.postgres_database import PostgresDatabase
from tenxgraph.storage.sql.sqlite import SqliteDialect
from tenxgraph.storage.sql.sqlite_database import SqliteDatabase
from tenxgraph.storage.sql.states import States
from tenxgraph.storage.sql.threads import Threads
from tenxgraph.storage.sql.tool_executions import ToolExecutions
from tenxgraph.storage.sql.write import WriteTransaction

__all__ = ["PostgresBackend", "SqliteBackend"]

T = TypeVar("T")


class Database(Protocol):
    """Where units of work run."""

    @property
    def schema(self) -> str | None:
        """The schema the tables are in."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run queries, or a single statement."""

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a unit of work in one transaction."""

    def stream(self, work: Callable[[Connection], Iterator[T]]) -> AsyncGenerator[T, None]:
        """Yield what a unit of work yields, while it sees the database at one moment."""

    async def migrate(self) -> None:
        """Bring the tables to the newest revision."""

    async def close(self) -> None:
        """Give back the connections."""


class SqlBackend:
    """All of it but the durable write, which each dialect does in its own way."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._verified = False
        self.tables = tables(database.schema)
        self._states = States(self.tables, dialect)
        self._messages = Messages(self.tables)
        self._threads = Threads(self.tables, dialect)
        self._tools = ToolExecutions(self.tables, dialect)
        self._archives = Archives(self.tables, dialect)
        self._write_transaction = WriteTransaction(self.tables, dialect)

    async def setup(self) -> None:
        await self._database.migrate()
        self._verified = True

    async def close(self) -> None:
        await self._database.close()

    async def head(self, scope: Scope) -> Head | None:
        return await self._read(self._states.head, scope)

    async def load_state(self, scope: Scope, version: int | None) -> StateRow | None:
        return await self._read(self._states.load, scope, version)

    async def load_messages(self, scope: Scope, ranges: Ranges) -> list[StoredMessage]:
        return await self._read(self._messages.by_number, scope, ranges)

    async def list_states(
        self, scope: Scope, limit: int | None, before: int | None
    ) -> list[StateSnapshot]:
        return await self._read(self._states.list, scope, limit, before)

    async def clear_state(self, scope: Scope) -> Head | None:
        return await self._write(self._states.clear, scope)

    async def get_message(self, scope: Scope, message_id: str) -> StoredMessage | None:
        return await self._read(self._messages.one, scope, message_id)

    async def list_messages(self, scope: Scope, query: MessageQuery) -> list[StoredMessage]:
        return await self._read(self._messages.list, scope, query)

    async def delete_message(self, scope: Scope, message_id: str) -> bool:
        return await self._remove(self._messages.delete, scope, message_id)

    async def put_thread(self, scope: Scope, info: ThreadInfo, generation: UUID) -> None:
        await self._write(self._threads.put, scope, info, generation)

    async def get_thread(self, scope: Scope) -> ThreadInfo | None:
        return await self._read(self._threads.get, scope)

    async def list_threads(self, query: ThreadQuery) -> list[ThreadInfo]:
        return await self._read(self._threads.list, query)

    async def delete_thread(self, scope: Scope) -> bool:
        return await self._remove(self._threads.delete, scope)

    async def set_stop(self, scope: Scope, requested: bool) -> bool:
        return await self._write(self._threads.set_stop, scope, requested)

    async def renew_lease(self, scope: Scope, lease: Lease) -> Head | None:
        return await self._write(self._states.renew_lease, scope, lease)

    async def get_tool(self, scope: Scope, message_id: str, position: int) -> ToolRow | None:
        return await self._read(self._tools.one, scope, message_id, position)

    async def list_tools(self, scope: Scope, status: str | None) -> list[ToolRow]:
        return await self._read(self._tools.list, scope, status)

    async def put_tool(self, scope: Scope, row: ToolRow) -> None:
        await self._write(self._tools.put, scope, row)

    async def read_archive(self, scope: Scope) -> AsyncGenerator[ArchivePage, None]:
        await self._verify()
        pages = self._database.stream(lambda connection: self._archives.pages(connection, scope))
        async with aclosing(pages):
            async for page in pages:
                yield page

    async def write_archive(self, scope: Scope, archive: Archive, generation: UUID) -> None:
        await self._write(self._archives.write, scope, archive, generation)

    async def _read(self, work: Callable[..., T], *arguments: Any) -> T:
        await self._verify()
        return await self._database.read(lambda connection: work(connection, *arguments))

    async def _write(self, work: Callable[..., T], *arguments: Any) -> T:
        await self._verify()
        return await self._database.write(lambda connection: work(connection, *arguments))

    async def _remove(self, work: Callable[..., bool], *arguments: Any) -> bool:
        """Remove something; whether it was there, be it at an attempt whose answer was lost."""
        found = False

        def attempt(connection: Connection) -> bool:
            nonlocal found
            found = work(connection, *arguments) or found
            return found

        return await self._write(attempt)

    async def _verify(self) -> None:
        """Look once whether the tables are this code's, so that every error about them is clear."""
        if not self._verified:
            schema = self._database.schema
            await self._database.read(lambda connection: migrate.verify(connection, schema))
            self._verified = True


class SqliteBackend(SqlBackend):
    """Threads in one SQLite file, or in memory."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database, SqliteDialect())

    async def commit(self, scope: Scope, write: Write) -> Committed:
        return await self._write(self._write_transaction, scope, write)


class PostgresBackend(SqlBackend):
    """Threads in a PostgreSQL schema."""

    def __init__(self, database: PostgresDatabase) -> None:
        dialect = PostgresDialect()
        super().__init__(database, dialect)
        self._postgres = database
        self._one_statement = OneStatementWrite(self.tables, dialect)
        self._one_query = OneQueryRead(self.tables)
        self._lost_answer = LostAnswer(self.tables, self._write_transaction)

    async def commit(self, scope: Scope, write: Write) -> Committed:
        await self._verify()
        with translating(self._postgres.place):
            try:
                return await self._attempt(scope, write)
            except (DBAPIError, TimeoutError) as error:
                if not is_connection_lost(error):
                    raise
                return await self._lost_answer.resolve(self._postgres, scope, write, error)

    async def load_state(self, scope: Scope, version: int | None) -> StateRow | None:
        return await self._read(self._one_query, scope, version)

    async def _attempt(self, scope: Scope, write: Write) -> Committed:
        """In one statement if this is the usual write, else in a transaction."""
        if write.state is not None and not write.tools:
            try:
                done = await self._postgres.once(lambda c: self._one_statement(c, scope, write))
            except DBAPIError as error:
                # A message of that id is there: it was sent again, or is an edited one.
                if not is_unique_violation(error):
                    raise
                done = None
            if done is not None:
                return done
        # Where nothing matched, the transaction also finds out why, and says it.
        return await self._postgres.transaction(lambda c: self._write_transaction(c, scope, write))
