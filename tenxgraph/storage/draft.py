"""Draft: a durable write in the making. What is new in a state, and what it refers to."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.agent_state import StoredState, remember_stored, stored_of
from tenxgraph.core.state.codec import to_text
from tenxgraph.core.state.message import Stored
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage import revisions
from tenxgraph.storage.backend import Committed, MessageRow, ToolRow, Write
from tenxgraph.storage.records import utc_now
from tenxgraph.storage.scope import LEASE_KEY, Scope, checked_object

__all__ = ["Draft", "new_generation"]

_LARGEST_COUNT = 2**63 - 1


def new_generation() -> UUID:
    """A new life of a thread id."""
    return uuid4()


class Draft:
    """The messages to insert, and the state that refers to them by number.

    Encoding happens here, so that whatever cannot be stored is refused before any I/O.
    """

    def __init__(self, codec: StateCodec[Any], config: Mapping[str, Any]) -> None:
        self._codec = codec
        self._name = config.get("thread_name")
        if self._name is not None and not isinstance(self._name, str):
            message = f"`thread_name` must be a string, not {type(self._name).__name__}."
            raise ValueError(message)
        meta = checked_object("thread_meta", config.get("thread_meta") or {})
        self._thread_meta = codec.encode(meta, "thread_meta")
        self._lease = config.get(LEASE_KEY)
        self._context: list[Message] = []
        self._beside: list[Message] = []
        self._generation: UUID | None = None
        self.messages: list[Message] = []
        """Those not stored yet, in order."""
        self._refs: list[list[int]] = []
        self._fields: str | None = None
        self._meta = "{}"

    @classmethod
    def of_messages(
        cls,
        codec: StateCodec[Any],
        config: Mapping[str, Any],
        messages: Sequence[Message],
        metadata: Mapping[str, Any] | None = None,
    ) -> "Draft":
        """A write of messages alone, with `metadata` added to that of each."""
        draft = cls(codec, config)
        more = checked_object("metadata", metadata or {})
        for i, message in enumerate(messages):
            codec.check_message(message, f"messages[{i}]")
            own = message.metadata
            draft.messages.append(
                message.model_copy(update={"metadata": {**own, **more}}) if more else message
            )
        return draft

    @classmethod
    def of_state(
        cls,
        codec: StateCodec[Any],
        scope: Scope,
        config: Mapping[str, Any],
        state: AgentState,
        messages: Sequence[Message],
        metadata: Mapping[str, Any],
    ) -> "Draft":
        """A write of a state, its context, and messages beside it.

        Args:
            codec: of the state's class.
            scope: the thread.
            config: for the name of a thread that this write makes.
            state: what to write.
            messages: to be stored as well.
            metadata: of this version.
        """
        draft = cls(codec, config)
        draft._fields = to_text(codec.state_fields(state), "state")
        draft._meta = codec.dumps(checked_object("metadata", metadata), "metadata")
        # Copies: the caller may change its lists while the write is on its way.
        draft._context, draft._beside = list(state.context), list(messages)
        draft._generation = scope.generation or _generation_of(state)
        draft._refer(stored_of(state))
        return draft

    def forget_places(self) -> None:
        """Take every message for a new one, since the thread that they were stored in is gone."""
        self._generation = None
        self.messages = []
        self._refs = []
        self._refer(None)

    def write(self, keep: int, tools: Sequence[ToolRow] = ()) -> Write:
        """The write, in rows and texts."""
        return Write(
            write_id=uuid4(),
            new_generation=new_generation(),
            at=utc_now(),
            messages=[self._row(i, message) for i, message in enumerate(self.messages)],
            generation=self._generation if self._has_known_refs() else None,
            state=self._fields,
            context=self._refs,
            meta=self._meta,
            tools=tools,
            keep=keep,
            lease=self._lease,
            thread_name=self._name,
            thread_meta=self._thread_meta,
        )

    def settle(self, committed: Committed, state: AgentState | None = None) -> None:
        """Remember, on the messages and the state, where they are stored now."""
        for message, seq in zip(self.messages, committed.seqs, strict=True):
            if seq:
                object.__setattr__(message, "_stored", Stored(committed.generation, seq))
        if state is not None and all(committed.seqs):
            stored = StoredState(
                generation=committed.generation,
                version=committed.version,
                fields=self._fields or "{}",
                messages=self._context,
                refs=revisions.resolve(self._refs, committed.seqs),
            )
            remember_stored(state, stored)

    def _refer(self, stored: StoredState | None) -> None:
        """Number the messages: what was stored with the state last time is known in one look."""
        context, start = self._context, 0
        if stored is not None and stored.generation == self._generation:
            # Equal lists of the same objects compare by identity, without a look inside.
            known = len(stored.messages)
            if context[:known] == stored.messages:
                self._refs = [list(pair) for pair in stored.refs]
                start = known
        for i, message in enumerate(context[start:] if start else context, start):
            seq = self._seq_of(message)
            if seq is None:
                self._codec.check_message(message, f"state.context[{i}]")
                self.messages.append(message)
                seq = -len(self.messages)
            revisions.append(self._refs, seq, seq)
        for i, message in enumerate(self._beside):
            self._codec.check_message(message, f"messages[{i}]")
        self._add_beside(self._beside)

    def _add_beside(self, messages: Sequence[Message]) -> None:
        """Take in messages that are not in the context, in the order in which both have them."""
        in_context = {message.message_id: i for i, message in enumerate(self.messages)}
        beside = [
            message
            for message in messages
            if message.message_id not in in_context and self._seq_of(message) is None
        ]
        if not beside:
            return
        merged: list[Message] = []
        taken = 0
        for message in messages:
            place = in_context.get(message.message_id)
            if place is not None:
                merged.extend(self.messages[taken : place + 1])
                taken = max(taken, place + 1)
            elif self._seq_of(message) is None:
                merged.append(message)
        merged.extend(self.messages[taken:])
        numbers = {id(message): i for i, message in enumerate(merged, start=1)}
        new = [-numbers[id(message)] for message in self.messages]
        self._refs = _renumbered(self._refs, new)
        self.messages = merged

    def _seq_of(self, message: Message) -> int | None:
        try:
            stored = message._stored
        except AttributeError:
            return None
        return stored.seq if stored.generation == self._generation else None

    def _has_known_refs(self) -> bool:
        return any(first > 0 for first, _ in self._refs)

    def _row(self, index: int, message: Message) -> MessageRow:
        text = self._codec.message_text(message, f"messages[{index}]")
        tokens = None if message.usages is None else message.usages.total_tokens
        if tokens is not None and abs(tokens) > _LARGEST_COUNT:
            tokens = None  # no number of tokens; the message itself keeps what it says
        return MessageRow(message.message_id, message.role, message.tool_call_id, text, tokens)


def _generation_of(state: AgentState) -> UUID | None:
    """The life of a thread in which the state, or else its first stored message, is stored."""
    stored = stored_of(state)
    if stored is not None:
        return stored.generation
    for message in state.context:
        try:
            return message._stored.generation
        except AttributeError:
            continue
    return None


def _renumbered(refs: list[list[int]], new: Sequence[int]) -> list[list[int]]:
    """The same references, where the new messages -1, -2, ... are now called as `new` says."""
    renumbered: list[list[int]] = []
    for first, last in refs:
        if first > 0:
            revisions.append(renumbered, first, last)
        else:
            for number in range(-first, -last + 1):
                revisions.append(renumbered, new[number - 1], new[number - 1])
    return renumbered
