"""StateEntries: states as entries, and entries as states again."""

from collections.abc import Sequence
from typing import Any, Generic

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import Message
from tenxgraph.core.state.agent_state import StateT, StoredState, remember_stored
from tenxgraph.core.state.message import Stored
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage.cache.entry import Change, Entry, Label, change, pack, unpack
from tenxgraph.storage.cache.recent import Context, Recent
from tenxgraph.storage.collector import collector_paused

__all__ = ["StateEntries"]


class StateEntries(Generic[StateT]):
    """The two directions, and the contexts that both have at hand."""

    def __init__(self) -> None:
        self._recent = Recent()

    def write(
        self, key: str, stored: StoredState, label: Label, codec: StateCodec[Any]
    ) -> tuple[bytes, Change | None] | None:
        """The value for a state as it is stored, and what is new in it; `None` if it has none.

        Nothing is encoded: the texts are those that were written to the database, and of these
        only the new ones are looked at.
        """
        known = self._recent.get(key)
        count = 0 if known is None else _count_same(known, stored)
        packed = pack(
            stored,
            label,
            [codec.message_text(message) for message in stored.messages[count:]],
            known.body if known is not None and count else None,
        )
        if packed is None:
            return None
        value, body = packed
        self._recent.keep(key, Context(stored.generation, stored.refs, stored.messages, body))
        if known is None or not count or known.generation != stored.generation:
            return value, None
        return value, change(known.body, body)

    def read(
        self, key: str, value: bytes, label: Label, codec: StateCodec[StateT]
    ) -> StateT | None:
        """The state that a value holds; `None` if it holds none, or another thread's.

        What does not fit the state's class any more is left to the database to tell.
        """
        try:
            entry = unpack(value)
            if entry.label != label:
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
        self._recent.keep(key, Context(entry.generation, entry.refs, messages, entry.body))
        return state

    def forget(self, key: str) -> None:
        """Let go of what is at hand for a thread."""
        self._recent.forget(key)

    def _messages(self, key: str, entry: Entry, codec: StateCodec[Any]) -> list[Message]:
        known = self._recent.get(key)
        messages: list[Message] = []
        behind = 0
        if known is not None and _goes_on_from(entry, known):
            messages, behind = known.messages, len(known.body)
        added = entry.body.texts(behind)
        seqs = [seq for first, last in entry.refs for seq in range(first, last + 1)]
        if len(seqs) != len(messages) + len(added):
            message = "the context is not complete"
            raise ValueError(message)
        if not added:
            return list(messages)
        with collector_paused():
            places = [Stored(entry.generation, seq) for seq in seqs[len(messages) :]]
            return messages + codec.messages(added, places)


def _count_same(known: Context, stored: StoredState) -> int:
    """How many messages the stored context begins with that are known, by identity."""
    count = len(known.messages)
    return count if stored.messages[:count] == known.messages else 0


def _goes_on_from(entry: Entry, known: Context) -> bool:
    """Whether an entry says what is known, byte by byte, and maybe more behind it."""
    return (
        entry.generation == known.generation
        and entry.body.goes_on_from(known.body)
        and _begins_with(entry.refs, known.refs)
    )


def _begins_with(refs: Sequence[Sequence[int]], known: Sequence[Sequence[int]]) -> bool:
    if not known:
        return True
    *before, (first, last) = known
    place = len(before)
    return (
        len(refs) > place
        and list(refs[:place]) == before
        and refs[place][0] == first
        and refs[place][1] >= last
    )
