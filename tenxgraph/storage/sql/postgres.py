"""PostgreSQL: the durable write as one statement, and what else only this dialect says."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Delete,
    Insert,
    Interval,
    Row,
    Select,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import asyncpg

from tenxgraph.storage import stored_state
from tenxgraph.storage.backend import Committed, Write
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, mine, this_thread
from tenxgraph.storage.sql.types import EscapedText, JsonText, UtcDateTime, escape, escaped

__all__ = ["OneStatementWrite", "PostgresDialect"]


class PostgresDialect:
    """What PostgreSQL answers."""

    def insert(self, table: Table) -> postgresql.Insert:
        """An INSERT that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
        return postgresql.insert(table)

    def now(self) -> ColumnElement[datetime]:
        """This moment, by the server's clock, also where a statement had to wait."""
        return func.clock_timestamp(type_=UtcDateTime)

    def from_now(self, name: str) -> ColumnElement[datetime]:
        """The moment when the timedelta bound as `name` will have passed; NULL if it is none."""
        return self.now() + bindparam(name, type_=Interval)

    def json_has(self, column: ColumnElement[Any], key: str, value: Any) -> ColumnElement[bool]:
        """Whether a JSONB object has `key` with this very value."""
        return column.op("@>", is_comparison=True)(literal({key: value}, column.type))


class OneStatementWrite:
    """The compare-and-swap, the state, its new messages and the pruning: one round trip.

    For the usual case, in which no message of the write is in the thread yet. `ON CONFLICT DO
    UPDATE ... WHERE`, like `UPDATE ... WHERE`, checks its condition on the newest row after it has
    waited for the row's lock, which is what makes this a true compare-and-swap.
    """

    def __init__(self, tables: Tables, dialect: PostgresDialect) -> None:
        self._tables = tables
        self._dialect = dialect
        # By whether the thread must be there, and whether a lease is asked for.
        self._statements = {
            (must_exist, leased): _Compiled(
                self._statement(
                    self._advance_only(leased) if must_exist else self._create_or_append(leased)
                )
            )
            for must_exist in (False, True)
            for leased in (False, True)
        }

    def __call__(self, connection: Connection, scope: Scope, write: Write) -> Committed | None:
        """Carry out the write; `None` if the thread is not as the write requires."""
        generation = scope.generation or write.generation
        must_exist = generation is not None or bool(scope.expected_version)
        parameters = {
            **caller(scope),
            "p_expected": scope.expected_version,
            "p_at": write.at,
            "p_count": len(write.messages),
            "p_keep": write.keep,
            "p_state": stored_state.document(write.state or "{}", write.context),
            "p_meta": write.meta,
            "p_write_id": write.write_id,
            **_columns(write),
        }
        if must_exist:
            parameters["p_generation"] = generation
        else:
            parameters |= {
                "p_new_generation": write.new_generation,
                "p_name": None if write.thread_name is None else escape(write.thread_name),
                "p_thread_meta": json.dumps(escaped(dict(write.thread_meta))),
            }
        if write.lease is not None:
            over = write.lease.over
            parameters |= {
                "p_holder": write.lease.holder,
                "p_lasts": write.lease.lasts,
                "p_over_holder": over and over.holder,
                "p_over_until": over and over.until,
            }
        statement = self._statements[must_exist, write.lease is not None]
        row = statement.execute(connection, parameters)
        if row is None:
            return None
        first = row.last_seq - len(write.messages) + 1
        seqs = range(first, row.last_seq + 1)
        return Committed(row.version, row.generation, seqs, row.stop_requested)

    def _as_expected(self, leased: bool) -> ColumnElement[bool]:
        threads = self._tables.threads
        expected = bindparam("p_expected", type_=threads.c.version.type)
        as_expected = or_(expected.is_(None), threads.c.version == expected)
        if not leased:
            return as_expected
        until = threads.c.lease_until
        is_over = and_(
            threads.c.lease_holder == bindparam("p_over_holder", type_=Text),
            until == bindparam("p_over_until", type_=until.type),
        )
        is_own = threads.c.lease_holder == bindparam("p_holder", type_=Text)
        free = or_(until.is_(None), is_own, is_over)
        return and_(as_expected, free)

    def _changes(self, leased: bool) -> dict[str, Any]:
        threads = self._tables.threads
        return {
            "version": threads.c.version + 1,
            "last_seq": threads.c.last_seq + bindparam("p_count", type_=BigInteger),
            "updated_at": bindparam("p_at", type_=threads.c.updated_at.type),
            **self._claim(leased),
        }

    def _claim(self, leased: bool) -> dict[str, Any]:
        if not leased:
            return {}
        until = self._dialect.from_now("p_lasts")
        return {"lease_holder": bindparam("p_holder", type_=Text), "lease_until": until}

    def _create_or_append(self, leased: bool) -> postgresql.Insert:
        threads = self._tables.threads
        return (
            postgresql.insert(threads)
            .values(
                thread_id=bindparam("p_thread", type_=Text),
                user_id=bindparam("p_caller", type_=Text),
                thread_name=bindparam("p_name", type_=threads.c.thread_name.type),
                meta=bindparam("p_thread_meta", type_=threads.c.meta.type),
                generation=bindparam("p_new_generation", type_=threads.c.generation.type),
                version=1,
                last_seq=bindparam("p_count", type_=BigInteger),
                stop_requested=False,
                created_at=bindparam("p_at", type_=threads.c.updated_at.type),
                updated_at=bindparam("p_at", type_=threads.c.updated_at.type),
                **self._claim(leased),
            )
            .on_conflict_do_update(
                index_elements=[threads.c.thread_id],
                set_=self._changes(leased),
                where=and_(mine(threads), self._as_expected(leased)),
            )
        )

    def _advance_only(self, leased: bool) -> Update:
        threads = self._tables.threads
        generation = bindparam("p_generation", type_=threads.c.generation.type)
        return (
            update(threads)
            .where(
                this_thread(threads),
                self._as_expected(leased),
                or_(generation.is_(None), threads.c.generation == generation),
            )
            .values(self._changes(leased))
        )

    def _statement(self, advance: Insert | Update) -> Select[Any]:
        threads = self._tables.threads
        head = advance.returning(
            threads.c.version, threads.c.generation, threads.c.last_seq, threads.c.stop_requested
        ).cte("head")
        base_seq = head.c.last_seq - bindparam("p_count", type_=BigInteger)
        return select(
            head.c.version, head.c.generation, head.c.last_seq, head.c.stop_requested
        ).add_cte(
            self._put_state(head, base_seq).cte("put_state"),
            self._put_messages(head, base_seq).cte("put_messages"),
            self._prune(head).cte("prune"),
        )

    def _put_state(self, head: Any, base_seq: ColumnElement[int]) -> Insert:
        states = self._tables.states
        values: dict[str, ColumnElement[Any]] = {
            "thread_id": bindparam("p_thread", type_=Text),
            "version": head.c.version,
            "state_data": bindparam("p_state", type_=JsonText),
            "base_seq": base_seq,
            "meta": bindparam("p_meta", type_=JsonText),
            "write_id": bindparam("p_write_id", type_=states.c.write_id.type),
            "created_at": bindparam("p_at", type_=states.c.created_at.type),
        }
        return insert(states).from_select(list(values), select(*values.values()).select_from(head))

    def _put_messages(self, head: Any, base_seq: ColumnElement[int]) -> Insert:
        messages = self._tables.messages
        rows = (
            func.unnest(
                bindparam("p_message_id", type_=ARRAY(EscapedText)),
                bindparam("p_role", type_=ARRAY(Text)),
                bindparam("p_tool_call_id", type_=ARRAY(EscapedText)),
                bindparam("p_data", type_=ARRAY(Text)),
                bindparam("p_total_tokens", type_=ARRAY(BigInteger)),
            )
            .table_valued(
                column("message_id", Text),
                column("role", Text),
                column("tool_call_id", Text),
                column("data", Text),
                column("total_tokens", BigInteger),
                with_ordinality="n",
            )
            .render_derived("new")
        )
        seq = base_seq + cast(rows.c.n, BigInteger)
        values: dict[str, ColumnElement[Any]] = {
            "thread_id": bindparam("p_thread", type_=Text),
            "seq": seq,
            "position": seq,
            "message_id": rows.c.message_id,
            "role": rows.c.role,
            "tool_call_id": rows.c.tool_call_id,
            "data": cast(rows.c.data, messages.c.data.type),
            "total_tokens": rows.c.total_tokens,
            "created_at": bindparam("p_at", type_=messages.c.created_at.type),
        }
        source = select(*values.values()).select_from(head.join(rows, true()))
        return insert(messages).from_select(list(values), source)

    def _prune(self, head: Any) -> Delete:
        states = self._tables.states
        return delete(states).where(
            states.c.thread_id == bindparam("p_thread", type_=Text),
            states.c.version
            <= select(head.c.version).scalar_subquery() - bindparam("p_keep", type_=BigInteger),
        )


class _Compiled:
    """A statement that is compiled once, and given to the driver with values that it understands.

    What SQLAlchemy does for every execution of a statement of this size, to find it among those it
    has compiled and to look at each value, takes a fifth of the time of the whole write.
    """

    def __init__(self, statement: Select[Any]) -> None:
        dialect: Any = asyncpg.dialect
        compiled: Any = statement.compile(dialect=dialect())
        self._sql = str(compiled)
        self._names: list[str] = compiled.positiontup
        self._literals = {
            name: value for name, value in compiled.params.items() if not name.startswith("p_")
        }

    def execute(self, connection: Connection, parameters: dict[str, Any]) -> Row[Any] | None:
        """The one row that the statement returns, if it did anything."""
        known = self._literals | parameters
        values = tuple(known[name] for name in self._names)
        return connection.exec_driver_sql(self._sql, values).one_or_none()


def _columns(write: Write) -> dict[str, list[Any]]:
    """The new messages by column, as `unnest` takes them."""
    rows = write.messages
    return {
        "p_message_id": [escape(row.message_id) for row in rows],
        "p_role": [row.role for row in rows],
        "p_tool_call_id": [row.tool_call_id and escape(row.tool_call_id) for row in rows],
        "p_data": [row.data for row in rows],
        "p_total_tokens": [row.total_tokens for row in rows],
    }
