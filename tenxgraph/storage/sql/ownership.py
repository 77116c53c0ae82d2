"""The one condition that every statement carries: the thread is the caller's."""

from typing import Any

from sqlalchemy import Boolean, ColumnElement, Table, Text, bindparam, or_

from tenxgraph.storage.scope import Scope

__all__ = ["caller", "mine", "this_thread"]


def mine(threads: Table) -> ColumnElement[bool]:
    """The thread belongs to the caller, or ownership does not count in this call."""
    return or_(
        bindparam("p_everyone", type_=Boolean),
        threads.c.user_id == bindparam("p_caller", type_=Text),
    )


def this_thread(threads: Table) -> ColumnElement[bool]:
    """The thread of the call, if it is the caller's."""
    return (threads.c.thread_id == bindparam("p_thread", type_=Text)) & mine(threads)


def caller(scope: Scope) -> dict[str, Any]:
    """The parameters of `this_thread`."""
    return {
        "p_thread": scope.thread_id,
        "p_everyone": not scope.isolated,
        "p_caller": scope.user_id,
    }
