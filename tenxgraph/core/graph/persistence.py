"""What `compile` is given to keep threads and memories in, checked."""

import logging
import os
from functools import cache
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.storage.checkpointer import BaseCheckpointer, InMemoryCheckpointer

__all__ = ["as_checkpointer", "as_store"]

logger = logging.getLogger("tenxgraph.graph")


def as_checkpointer(value: Any) -> BaseCheckpointer[Any]:
    """Return the checkpointer, or a new `InMemoryCheckpointer` for None.

    Raises:
        GraphError: it is a path, a DSN, a class or something else; the message shows what works.
    """
    if value is None:
        _warn_of_no_checkpointer()
        return InMemoryCheckpointer()
    if isinstance(value, BaseCheckpointer):
        return value
    if isinstance(value, type):
        raise GraphError(_class_message("checkpointer", value))
    if isinstance(value, str | os.PathLike):
        # A DSN may hold a password, so the text itself is not repeated.
        raise GraphError(
            "`checkpointer` must be a checkpointer, not a path or DSN. Make one with "
            "`create_checkpointer(...)` from `tenxgraph`, such as "
            '`create_checkpointer("agents.db")`, and call its `setup()` once.'
        )
    raise GraphError(
        f"`checkpointer` must be a checkpointer, not {type(value).__name__}. Make one with "
        '`create_checkpointer("agents.db")` from `tenxgraph`.'
    )


def as_store(value: Any) -> Any:
    """Return the store, or None.

    Raises:
        GraphError: it is a class, or a path or URL; the message shows what works.
    """
    if isinstance(value, type):
        raise GraphError(_class_message("store", value))
    if isinstance(value, str | os.PathLike):
        raise GraphError(
            "`store` must be a store, not a path or URL. Make one, such as "
            '`create_local_qdrant_store("./memories", embedding)` from `tenxgraph.storage`.'
        )
    return value


def _class_message(argument: str, value: type) -> str:
    name = value.__name__
    return (
        f"`{argument}` must be an object, not the class {name}: `{argument}={name}(...)`, with "
        "parentheses."
    )


@cache  # once for each process: a program may compile many graphs
def _warn_of_no_checkpointer() -> None:
    logger.warning(
        "A graph was compiled without a checkpointer. Its threads are kept in this process alone "
        "and are gone when it ends. Pass "
        '`compile(checkpointer=create_checkpointer("agents.db"))` to keep them, or '
        "`InMemoryCheckpointer()` if that is meant."
    )
