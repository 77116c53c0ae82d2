"""Reading and clearing states."""

import json

from sqlalchemy import Connection, bindparam, delete, or_, select, update

from tenxgraph.storage.backend import Head, Lease, StateRow
from tenxgraph.storage.records import StateSnapshot
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.dialect import Dialect
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, this_thread

__all__ = ["States"]


class States:
    """The statements on states, made once."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        threads, states = tables.threads, tables.states
        head = (threads.c.version, threads.c.generation, threads.c.stop_requested)
        wanted = bindparam("p_version", type_=states.c.version.type)
        self._head = select(*head).where(this_thread(threads))
        # One query for both: what is known of the thread, and the state if there is one.
        self._load = (
            select(*head, states.c.version, states.c.state_data, states.c.base_seq)
            .select_from(
                threads.outerjoin(
                    states,
                    (states.c.thread_id == threads.c.thread_id)
                    & or_(wanted.is_(None), states.c.version == wanted),
                )
            )
            .where(this_thread(threads))
            .order_by(states.c.version.desc(), states.c.state_id.desc())
            .limit(1)
        )
        self._list = (
            select(states.c.thread_id, states.c.version, states.c.created_at, states.c.meta)
            .join(threads, states.c.thread_id == threads.c.thread_id)
            .where(
                this_thread(threads),
                or_(
                    bindparam("p_before", type_=states.c.version.type).is_(None),
                    states.c.version < bindparam("p_before", type_=states.c.version.type),
                ),
            )
            .order_by(states.c.version.desc())
        )
        self._advance = (
            update(threads)
            .where(this_thread(threads))
            .values(version=threads.c.version + 1)
            .returning(*head)
        )
        self._renew = (
            update(threads)
            .where(this_thread(threads), threads.c.lease_holder == bindparam("p_holder"))
            .values(lease_until=dialect.from_now("p_lasts"))
            .returning(*head)
        )
        self._clear = delete(states).where(states.c.thread_id == bindparam("p_thread"))

    def head(self, connection: Connection, scope: Scope) -> Head | None:
        """The thread at this moment."""
        row = connection.execute(self._head, caller(scope)).one_or_none()
        return None if row is None else Head(*row)

    def load(self, connection: Connection, scope: Scope, version: int | None) -> StateRow | None:
        """The newest state, or the one of `version`, and the thread's head with it."""
        row = connection.execute(self._load, {**caller(scope), "p_version": version}).one_or_none()
        if row is None:
            return None
        return StateRow(Head(*row[:3]), row[3] or 0, row[4], row[5] or 0)

    def list(
        self, connection: Connection, scope: Scope, limit: int | None, before: int | None
    ) -> list[StateSnapshot]:
        """Kept versions, newest first."""
        rows = connection.execute(
            self._list.limit(limit), {**caller(scope), "p_before": before}
        ).all()
        return [
            StateSnapshot(
                thread_id=row.thread_id,
                version=row.version,
                created_at=row.created_at,
                meta=json.loads(row.meta),
            )
            for row in rows
        ]

    def renew_lease(self, connection: Connection, scope: Scope, lease: Lease) -> Head | None:
        """Keep a run's claim on the thread, if it still has it."""
        parameters = {**caller(scope), "p_holder": lease.holder, "p_lasts": lease.lasts}
        row = connection.execute(self._renew, parameters).one_or_none()
        return None if row is None else Head(*row)

    def clear(self, connection: Connection, scope: Scope) -> Head | None:
        """Remove all states, in the caller's transaction."""
        row = connection.execute(self._advance, caller(scope)).one_or_none()
        if row is None:
            return None
        connection.execute(self._clear, {"p_thread": scope.thread_id})
        return Head(*row)
