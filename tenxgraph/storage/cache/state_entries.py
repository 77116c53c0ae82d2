"""StateEntries: states as entries, and entries as states again."""

from typing import Any, Generic, TypeVar

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.agent_state import StoredState, remember_stored
from tenxgraph.core.state.message import Stored
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage.cache.entry import Entry, pack, unpack
from tenxgraph.storage.cache.recent import Recent

__all__ = ["StateEntries"]

StateT = TypeVar("StateT", bound=AgentState)


class StateEntries(Generic[StateT]):
    """The two directions, and the messages that both have at hand.

    Args:
        origin: the database in which the threads are kept.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._recent = Recent()

    def write(
        self, key: str, stored: StoredState, owner: str | None, codec: StateCodec[Any]
    ) -> bytes | None:
        """The value for a state as it is stored; `None` if it has none.

        Nothing is encoded: the texts are those that were written to the database.
        """
        texts = [codec.message_text(message) for message in stored.messages]
        value = pack(stored, texts, owner=owner, origin=self._origin)
        self._recent.keep(key, stored.messages, len(value or b""))
        return value

    def read(
        self, key: str, value: bytes, owner: str | None, codec: StateCodec[StateT]
    ) -> StateT | None:
        """The state that a value holds; `None` if it is none, or not this caller's.

        What does not fit the state's class any more is left to the database to tell.
        """
        try:
            entry = unpack(value)
            if (entry.owner, entry.origin) != (owner, self._origin):
                return None
            messages = self._messages(key, entry, codec)
            state = codec.state(codec.decode_fields(entry.fields), messages)
        except (ValueError, RecursionError, SerializationError):
            self._recent.forget(key)
            return None
        stored = StoredState(
            generation=entry.generation,
            version=entry.version,
            fields=entry.fields,
            messages=messages,
            refs=entry.refs,
        )
        remember_stored(state, stored)
        self._recent.keep(key, messages, len(value))
        return state

    def forget(self, key: str) -> None:
        """Let go of what is at hand for a thread."""
        self._recent.forget(key)

    def _messages(self, key: str, entry: Entry, codec: StateCodec[Any]) -> list[Message]:
        places = [
            Stored(entry.generation, seq)
            for first, last in entry.refs
            for seq in range(first, last + 1)
        ]
        known = self._recent.same(key, entry.texts, places)
        new = codec.messages(entry.texts[len(known) :], places[len(known) :])
        return known + new
