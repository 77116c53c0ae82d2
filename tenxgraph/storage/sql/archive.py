"""A whole thread, out and in."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, insert, select

from tenxgraph.core.exceptions import StorageError
from tenxgraph.storage.backend import Archive
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.dialect import Dialect
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, this_thread

__all__ = ["Archives"]


class Archives:
    """Reads and writes every row of a thread."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._threads = tables.threads
        self._thread = select(tables.threads).where(this_thread(tables.threads))
        self._generation = select(tables.threads.c.generation).where(
            tables.threads.c.thread_id == bindparam("p_thread")
        )
        self._create = dialect.insert(tables.threads).on_conflict_do_nothing()
        self._parts = {
            "messages": (tables.messages, tables.messages.c.seq),
            "states": (tables.states, tables.states.c.version),
            "tool_executions": (tables.tool_executions, tables.tool_executions.c.created_at),
        }

    def read(self, connection: Connection, scope: Scope) -> Archive | None:
        """All rows of the thread, in the caller's transaction."""
        thread = connection.execute(self._thread, caller(scope)).mappings().one_or_none()
        if thread is None:
            return None
        archive = Archive(thread=dict(thread))
        for name, (table, order) in self._parts.items():
            of_thread = select(table).where(table.c.thread_id == bindparam("p_thread"))
            rows = connection.execute(of_thread.order_by(order), {"p_thread": scope.thread_id})
            getattr(archive, name).extend(dict(row) for row in rows.mappings())
        return archive

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
        for name, (table, _) in self._parts.items():
            rows = [{**row, "thread_id": scope.thread_id} for row in getattr(archive, name)]
            for row in rows:
                row.pop("state_id", None)  # a number of this database's own
            if rows:
                connection.execute(insert(table), rows)
