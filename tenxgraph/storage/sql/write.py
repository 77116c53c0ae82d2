"""The durable write as a few statements in one transaction.

SQLite's way, and PostgreSQL's where a message of the write is in the thread already.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from tenxgraph.storage import stored_state
from tenxgraph.storage.backend import Committed, Write
from tenxgraph.storage.guard import check_write
from tenxgraph.storage.revisions import Live, Plan, plan_messages, resolve
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.dialect import Dialect
from tenxgraph.storage.sql.models import Tables

__all__ = ["WriteTransaction"]

_IDS_PER_QUERY = 500


class WriteTransaction:
    """The statements of a write, made once."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        threads, states, messages = tables.threads, tables.states, tables.messages
        self._thread = (
            select(
                threads.c.user_id,
                threads.c.generation,
                threads.c.version,
                threads.c.last_seq,
                threads.c.stop_requested,
                threads.c.lease_holder,
                threads.c.lease_until,
                dialect.now().label("now"),
            )
            .where(threads.c.thread_id == bindparam("p_thread"))
            .with_for_update()
        )
        self._create = dialect.insert(threads).on_conflict_do_nothing()
        self._advance = (
            update(threads)
            .where(threads.c.thread_id == bindparam("p_thread"))
            .values(
                version=bindparam("p_version"),
                last_seq=bindparam("p_last_seq"),
                updated_at=bindparam("p_at", type_=threads.c.updated_at.type),
            )
        )
        self._advance_and_claim = self._advance.values(
            lease_holder=bindparam("p_holder"), lease_until=dialect.from_now("p_lasts")
        )
        self._live = select(
            messages.c.message_id, messages.c.seq, messages.c.position, messages.c.data
        ).where(
            messages.c.thread_id == bindparam("p_thread"),
            messages.c.message_id.in_(bindparam("p_ids", expanding=True)),
            messages.c.replaced_by.is_(None),
        )
        self._supersede = (
            update(messages)
            .where(
                messages.c.thread_id == bindparam("p_thread"), messages.c.seq == bindparam("p_seq")
            )
            .values(replaced_by=bindparam("p_replaced_by"))
        )
        self._insert_messages = insert(messages)
        self._insert_state = insert(states).inline()
        self._insert_tools = insert(tables.tool_executions)
        self._prune = delete(states).where(
            states.c.thread_id == bindparam("p_thread"),
            states.c.version <= bindparam("p_oldest"),
        )

    def __call__(self, connection: Connection, scope: Scope, write: Write) -> Committed:
        """Carry out a write inside the caller's transaction. Raises what `check_write` does."""
        return self.carry_out(connection, scope, write, self.lock(connection, scope, write))

    def carry_out(
        self, connection: Connection, scope: Scope, write: Write, thread: Row[*tuple[Any, ...]]
    ) -> Committed:
        """The write itself, to a thread that is locked."""
        check_write(scope, write, thread)
        live = self._find_live(connection, scope, [row.message_id for row in write.messages])
        plan = plan_messages(write.messages, live, thread.last_seq)
        self._write_messages(connection, scope, write, plan)
        version = thread.version
        if write.state is not None:
            version += 1
            self._write_state(connection, scope, write, version, plan, thread.last_seq)
        if write.tools:
            tools = [{"thread_id": scope.thread_id, **row.columns()} for row in write.tools]
            connection.execute(self._insert_tools, tools)
        parameters = {
            "p_thread": scope.thread_id,
            "p_version": version,
            "p_last_seq": thread.last_seq + len(plan.inserts),
            "p_at": write.at,
        }
        if write.lease is None:
            connection.execute(self._advance, parameters)
        else:
            claim = {"p_holder": write.lease.holder, "p_lasts": write.lease.lasts}
            connection.execute(self._advance_and_claim, parameters | claim)
        return Committed(version, thread.generation, plan.seqs, thread.stop_requested)

    def lock(self, connection: Connection, scope: Scope, write: Write) -> Row[*tuple[Any, ...]]:
        """Keep other writers of the thread waiting; makes the thread if that is what is asked."""
        key = {"p_thread": scope.thread_id}
        thread = connection.execute(self._thread, key).one_or_none()
        if thread is not None:
            return thread
        check_write(scope, write, None)
        new = {
            "thread_id": scope.thread_id,
            "user_id": scope.user_id,
            "thread_name": write.thread_name,
            "meta": dict(write.thread_meta),
            "generation": write.new_generation,
            "version": 0,
            "last_seq": 0,
            "stop_requested": False,
            "created_at": write.at,
            "updated_at": write.at,
        }
        connection.execute(self._create, new)
        # Another writer may have made it in between: then it is theirs, and checked like any.
        return connection.execute(self._thread, key).one()

    def _find_live(
        self, connection: Connection, scope: Scope, ids: Sequence[str]
    ) -> dict[str, Live]:
        live: dict[str, Live] = {}
        for start in range(0, len(ids), _IDS_PER_QUERY):
            chunk = ids[start : start + _IDS_PER_QUERY]
            found = connection.execute(self._live, {"p_thread": scope.thread_id, "p_ids": chunk})
            live.update((row[0], Live(*row[1:])) for row in found)
        return live

    def _write_messages(
        self, connection: Connection, scope: Scope, write: Write, plan: Plan
    ) -> None:
        if plan.superseded:
            # Before the inserts: one live row at most may have a message id.
            replaced = [
                {"p_thread": scope.thread_id, "p_seq": old, "p_replaced_by": new}
                for old, new in plan.superseded.items()
            ]
            connection.execute(self._supersede, replaced)
        if plan.inserts:
            rows = [
                {
                    "thread_id": scope.thread_id,
                    "seq": new.seq,
                    "position": new.position,
                    "replaced_by": new.replaced_by,
                    "created_at": write.at,
                    **new.row._asdict(),
                }
                for new in plan.inserts
            ]
            connection.execute(self._insert_messages, rows)

    def _write_state(
        self,
        connection: Connection,
        scope: Scope,
        write: Write,
        version: int,
        plan: Plan,
        base_seq: int,
    ) -> None:
        row = {
            "thread_id": scope.thread_id,
            "version": version,
            "state_data": stored_state.document(
                write.state or "{}", resolve(write.context, plan.seqs)
            ),
            "base_seq": base_seq,
            "meta": write.meta,
            "write_id": write.write_id,
            "created_at": write.at,
        }
        connection.execute(self._insert_state, row)
        if version > write.keep:
            connection.execute(
                self._prune, {"p_thread": scope.thread_id, "p_oldest": version - write.keep}
            )
