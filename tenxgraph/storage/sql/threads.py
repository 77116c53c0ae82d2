"""Thread records: making, changing, listing and deleting them; the stop flag."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Select, bindparam, delete, or_, select, true, update

from tenxgraph.core.exceptions import ThreadOwnershipError
from tenxgraph.storage.backend import ThreadQuery
from tenxgraph.storage.records import ThreadInfo, utc_now
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.dialect import Dialect
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, mine, this_thread

__all__ = ["Threads"]


class Threads:
    """The statements on threads."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        threads = self._threads = tables.threads
        self._dialect = dialect
        self._columns = (
            threads.c.thread_id,
            threads.c.thread_name,
            threads.c.user_id,
            threads.c.meta,
            threads.c.created_at,
            threads.c.updated_at,
        )
        self._get = select(*self._columns).where(this_thread(threads))
        self._delete = delete(threads).where(this_thread(threads))
        self._stop = (
            update(threads)
            .where(this_thread(threads))
            .values(stop_requested=bindparam("p_requested"))
        )

    def put(self, connection: Connection, scope: Scope, info: ThreadInfo, generation: UUID) -> None:
        """Make the thread, or change what the record gives."""
        now = utc_now()
        new = self._dialect.insert(self._threads).values(
            thread_id=scope.thread_id,
            user_id=scope.user_id,
            thread_name=info.thread_name,
            meta=info.metadata or {},
            generation=generation,
            version=0,
            last_seq=0,
            stop_requested=False,
            created_at=now,
            updated_at=now,
        )
        changes: dict[str, Any] = {"updated_at": now}
        if info.thread_name is not None:
            changes["thread_name"] = new.excluded.thread_name
        if info.metadata is not None:
            changes["meta"] = new.excluded.meta
        upsert = new.on_conflict_do_update(
            index_elements=[self._threads.c.thread_id], set_=changes, where=mine(self._threads)
        ).returning(self._threads.c.thread_id)
        if connection.execute(upsert, caller(scope)).one_or_none() is None:
            raise ThreadOwnershipError(scope.thread_id)

    def get(self, connection: Connection, scope: Scope) -> ThreadInfo | None:
        """The thread's record."""
        row = connection.execute(self._get, caller(scope)).one_or_none()
        return None if row is None else _info(row)

    def list(self, connection: Connection, query: ThreadQuery) -> list[ThreadInfo]:
        """Records, last changed first."""
        threads = self._threads
        statement: Select[Any] = select(*self._columns).where(
            threads.c.user_id == query.user_id if query.isolated else true()
        )
        if query.search:
            statement = statement.where(
                threads.c.thread_name.icontains(query.search, autoescape=True)
            )
        for key, values in query.filter.items():
            has = (self._dialect.json_has(threads.c.meta, key, value) for value in values)
            statement = statement.where(or_(*has))
        if query.after is not None:
            moment, thread_id = query.after
            statement = statement.where(
                or_(
                    threads.c.updated_at < moment,
                    (threads.c.updated_at == moment) & (threads.c.thread_id > thread_id),
                )
            )
        statement = statement.order_by(threads.c.updated_at.desc(), threads.c.thread_id)
        statement = statement.limit(query.limit)
        if query.offset:
            statement = statement.offset(query.offset)
        return [_info(row) for row in connection.execute(statement)]

    def delete(self, connection: Connection, scope: Scope) -> bool:
        """Remove the thread; its rows in other tables go with it."""
        return connection.execute(self._delete, caller(scope)).rowcount > 0

    def set_stop(self, connection: Connection, scope: Scope, requested: bool) -> bool:
        """Raise or lower the stop flag."""
        parameters = {**caller(scope), "p_requested": requested}
        return connection.execute(self._stop, parameters).rowcount > 0


def _info(row: Row[*tuple[Any, ...]]) -> ThreadInfo:
    return ThreadInfo(
        thread_id=row.thread_id,
        thread_name=row.thread_name,
        user_id=row.user_id,
        metadata=row.meta,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
