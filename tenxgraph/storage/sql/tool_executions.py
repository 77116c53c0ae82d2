"""The ledger of tool executions."""

from typing import Any

from sqlalchemy import Connection, Row, bindparam, or_, select

from tenxgraph.storage.backend import ToolRow
from tenxgraph.storage.guard import check_life
from tenxgraph.storage.records import ToolExecution
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.dialect import Dialect
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, this_thread

__all__ = ["ToolExecutions"]

_FIELDS = ("message_id", "position", "tool_call_id", "tool_name", "args_digest", "status")


class ToolExecutions:
    """The statements on tool executions, made once."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        threads, tools = tables.threads, tables.tool_executions
        columns = [column for column in tools.c if column.name != "thread_id"]
        of_caller = (
            select(*columns)
            .join(threads, tools.c.thread_id == threads.c.thread_id)
            .where(this_thread(threads))
        )
        self._one = of_caller.where(
            tools.c.message_id == bindparam("p_message"),
            tools.c.position == bindparam("p_position"),
        )
        status = bindparam("p_status", type_=tools.c.status.type)
        self._list = of_caller.where(or_(status.is_(None), tools.c.status == status)).order_by(
            tools.c.created_at, tools.c.message_id, tools.c.position
        )
        self._thread = (
            select(threads.c.user_id, threads.c.generation, threads.c.version)
            .where(threads.c.thread_id == bindparam("p_thread"))
            .with_for_update(read=True, key_share=True)
        )
        new = dialect.insert(tools)
        self._put = new.on_conflict_do_update(
            index_elements=[tools.c.thread_id, tools.c.message_id, tools.c.position],
            set_={
                name: new.excluded[name]
                for name in ("tool_call_id", "tool_name", "args_digest", "status", "result")
            }
            | {"updated_at": new.excluded.updated_at},
        )

    def one(
        self, connection: Connection, scope: Scope, message_id: str, position: int
    ) -> ToolRow | None:
        """One execution."""
        parameters = {**caller(scope), "p_message": message_id, "p_position": position}
        row = connection.execute(self._one, parameters).one_or_none()
        return None if row is None else _tool_row(row)

    def list(self, connection: Connection, scope: Scope, status: str | None) -> list[ToolRow]:
        """All executions of the thread, or those with one status."""
        rows = connection.execute(self._list, {**caller(scope), "p_status": status})
        return [_tool_row(row) for row in rows]

    def put(self, connection: Connection, scope: Scope, row: ToolRow) -> None:
        """Record an execution, in the caller's transaction."""
        thread = connection.execute(self._thread, {"p_thread": scope.thread_id}).one_or_none()
        check_life(scope, thread)
        connection.execute(self._put, {"thread_id": scope.thread_id, **row.columns()})


def _tool_row(row: Row[Any]) -> ToolRow:
    fields = {name: getattr(row, name) for name in _FIELDS}
    execution = ToolExecution(**fields, created_at=row.created_at, updated_at=row.updated_at)
    return ToolRow(execution, row.result)
