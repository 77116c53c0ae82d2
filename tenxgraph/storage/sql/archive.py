"""A whole thread, out and in."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from sqlalchemy import BindParameter, Connection, bindparam, func, insert, select

from tenxgraph.core.exceptions import StorageError
from tenxgraph.storage.backend import Archive, ArchivePage
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.dialect import Dialect
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, this_thread

__all__ = ["Archives"]

# Rows that are in memory at a time.
_PAGE = 100


class Archives:
    """Reads and writes every row of a thread."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._threads = tables.threads
        self._thread = select(tables.threads).where(this_thread(tables.threads))
        self._generation = select(tables.threads.c.generation).where(
            tables.threads.c.thread_id == bindparam("p_thread")
        )
        self._create = dialect.insert(tables.threads).on_conflict_do_nothing()
        tools = tables.tool_executions.c
        orders = {
            tables.messages: (tables.messages.c.seq,),
            tables.states: (tables.states.c.version,),
            tables.tool_executions: (tools.created_at, tools.message_id, tools.position),
        }
        thread: BindParameter[str] = bindparam("p_thread")
        # A cursor on the server: without it the driver would fetch all rows at once.
        self._rows = {
            table.name: select(table)
            .where(table.c.thread_id == thread)
            .order_by(*order)
            .execution_options(yield_per=_PAGE)
            for table, order in orders.items()
        }
        self._counts = select(
            *(
                select(func.count())
                .select_from(table)
                .where(table.c.thread_id == thread)
                .scalar_subquery()
                .label(table.name)
                for table in orders
            )
        )
        self._inserts = {table.name: insert(table) for table in orders}

    def pages(self, connection: Connection, scope: Scope) -> Iterator[ArchivePage]:
        """Yield all rows of the thread, in the caller's transaction."""
        thread = connection.execute(self._thread, caller(scope)).mappings().one_or_none()
        if thread is None:
            return
        key = {"p_thread": scope.thread_id}
        counts = connection.execute(self._counts, key).mappings().one()
        yield ArchivePage("thread", [{"rows": dict(counts), **thread}])
        for part, statement in self._rows.items():
            for rows in connection.execute(statement, key).mappings().partitions():
                yield ArchivePage(part, [dict(row) for row in rows])

    def write(
        self, connection: Connection, scope: Scope, archive: Archive, generation: UUID
    ) -> None:
        """Make the thread, in the caller's transaction."""
        thread: dict[str, Any] = {
            **archive.thread,
            "thread_id": scope.thread_id,
            "user_id": scope.user_id,
            "generation": generation,
        }
        if connection.execute(self._create, thread).rowcount == 0:
            key = {"p_thread": scope.thread_id}
            if connection.execute(self._generation, key).scalar_one_or_none() == generation:
                return  # this very import, whose answer was lost
            message = (
                f"There is a thread {scope.thread_id!r} already. Import under another "
                "`thread_id`, or delete that one first with `aclean_thread`."
            )
            raise StorageError(message, code="thread_exists", thread_id=scope.thread_id)
        for name, statement in self._inserts.items():
            rows = [{**row, "thread_id": scope.thread_id} for row in getattr(archive, name)]
            for row in rows:
                row.pop("state_id", None)  # a number of this database's own
            if rows:
                connection.execute(statement, rows)
