"""Recent: the messages that this process has in hand anyhow, so that it need not decode them."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from tenxgraph.core.state import Message
from tenxgraph.core.state.message import Stored

__all__ = ["Recent"]

_MOST_CHARACTERS = 8 * 1024 * 1024


class Recent:
    """The context of the threads used last, as messages; up to 8 MB of their text.

    Messages are immutable, so runs can share them. What is shared is only what an entry says word
    by word: the texts come from Redis, and are compared.
    """

    def __init__(self, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most = most_characters
        self._lock = threading.Lock()
        self._contexts: OrderedDict[str, tuple[Sequence[Message], int]] = OrderedDict()
        self._characters = 0

    def keep(self, key: str, messages: Sequence[Message], characters: int) -> None:
        """Remember a thread's context instead of what was known of it."""
        with self._lock:
            self._forget(key)
            if characters > self._most:
                return
            self._contexts[key] = (messages, characters)
            self._characters += characters
            while self._characters > self._most:
                self._forget(next(iter(self._contexts)))

    def forget(self, key: str) -> None:
        """Let go of a thread's messages."""
        with self._lock:
            self._forget(key)

    def same(self, key: str, texts: Sequence[str], places: Sequence[Stored]) -> list[Message]:
        """Of a context, the messages from its beginning on that are known already."""
        known, _ = self._contexts.get(key, ((), 0))
        count = 0
        for message, text, place in zip(known, texts, places, strict=False):
            if message._stored != place or message._encoded != text:
                break
            count += 1
        return list(known[:count])

    def _forget(self, key: str) -> None:
        _, characters = self._contexts.pop(key, ((), 0))
        self._characters -= characters
