"""Unrecorded: ends of tool calls that this process knows, and whose record could not be written."""

import logging
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tenxgraph.storage.checkpointer import BaseCheckpointer, ToolExecution

__all__ = ["End", "Unrecorded", "of_checkpointer"]

logger = logging.getLogger("tenxgraph.graph")

_MOST = 1000


class End(NamedTuple):
    """How a call has ended."""

    config: dict[str, Any]
    """Of the ledger: it names the thread and its generation."""
    execution: ToolExecution


class Unrecorded:
    """Keeps the ends of calls until the ledger has them; at most 1,000, and the newest of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[tuple[str, str, int], End] = {}

    def keep(self, config: Mapping[str, Any], execution: ToolExecution) -> None:
        """Remember how a call has ended."""
        with self._lock:
            self._ends[_key(config, execution.message_id, execution.position)] = End(
                dict(config), execution
            )
            forgotten = len(self._ends) > _MOST and self._ends.pop(next(iter(self._ends)))
        if forgotten:
            logger.error(
                "Thread %r: the end of a call of %s could not be recorded, and is forgotten: more "
                "than %d others wait for the database.",
                forgotten.config.get("thread_id"),
                forgotten.execution.tool_name,
                _MOST,
            )

    def find(self, config: Mapping[str, Any], message_id: str, position: int) -> End | None:
        """Return the end of a call, or None."""
        with self._lock:
            return self._ends.get(_key(config, message_id, position))

    def drop(self, end: End) -> None:
        """Forget an end, unless there is another one of that call by now."""
        key = _key(end.config, end.execution.message_id, end.execution.position)
        with self._lock:
            if self._ends.get(key) is end:
                del self._ends[key]


def _key(config: Mapping[str, Any], message_id: str, position: int) -> tuple[str, str, int]:
    return str(config.get("thread_id")), message_id, position


_all: WeakKeyDictionary[BaseCheckpointer[Any], Unrecorded] = WeakKeyDictionary()
_lock = threading.Lock()


def of_checkpointer(checkpointer: BaseCheckpointer[Any]) -> Unrecorded:
    """Return those of one checkpointer. They are gone when it is."""
    with _lock:
        return _all.setdefault(checkpointer, Unrecorded())
