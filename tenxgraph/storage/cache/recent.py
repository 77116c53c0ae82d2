"""Recent: the contexts that this process has at hand, so that it need not decode them again."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tenxgraph.core.state import Message
from tenxgraph.storage.cache.entry import Body

__all__ = ["Context", "Recent"]

_MOST_BYTES = 8 * 1024 * 1024


class Context(NamedTuple):
    """The messages of a state, and the very bytes by which an entry says them."""

    generation: UUID
    refs: Sequence[Sequence[int]]
    messages: list[Message]
    body: Body


class Recent:
    """The context of the threads used last, up to 8 MB of them.

    Messages are immutable, so runs can share them. Nothing is believed that Redis does not say
    byte by byte: what is at hand is compared with what has been read.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._contexts: OrderedDict[str, Context] = OrderedDict()
        self._bytes = 0

    def keep(self, key: str, context: Context) -> None:
        """Remember a thread's context instead of what was known of it."""
        with self._lock:
            self._forget(key)
            if len(context.body) > self._most:
                return
            self._contexts[key] = context
            self._bytes += len(context.body)
            while self._bytes > self._most:
                self._forget(next(iter(self._contexts)))

    def get(self, key: str) -> Context | None:
        """What is known of a thread's context."""
        return self._contexts.get(key)

    def forget(self, key: str) -> None:
        """Let go of a thread's messages."""
        with self._lock:
            self._forget(key)

    def _forget(self, key: str) -> None:
        context = self._contexts.pop(key, None)
        if context is not None:
            self._bytes -= len(context.body)
