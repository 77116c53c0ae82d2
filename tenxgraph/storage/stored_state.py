"""How a state lies in its row: the fields as one JSON object, the context as message numbers.

Negative numbers count from the row's `base_seq`: -1 is the first message that came with it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.agent_state import StoredState, remember_stored
from tenxgraph.core.state.message import Stored
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage import revisions
from tenxgraph.storage.backend import Ranges, StateRow, StoredMessage
from tenxgraph.storage.collector import collector_paused

__all__ = ["absolute", "assemble", "document", "split"]

_OPENING = '{"context":'
_decoder = json.JSONDecoder()


def document(fields: str, context: Ranges) -> str:
    """The text of a row: the state's fields, which are a JSON object, behind its context."""
    separator = "" if fields == "{}" else ","
    return f"{_OPENING}{json.dumps(context, separators=(',', ':'))}{separator}{fields[1:]}"


def split(text: str) -> tuple[Ranges, str]:
    """What `document` was given: the context, and the fields as text.

    Raises:
        SerializationError: the text is no such document.
    """
    try:
        if not text.startswith(_OPENING):
            raise ValueError("it does not begin with its context")
        context, end = _decoder.raw_decode(text, len(_OPENING))
        _check(context)
    except ValueError as error:
        message = f"The stored state is damaged: {error}."
        raise SerializationError(message, path="state.context") from error
    return context, "{" + text[end:].removeprefix(",")


def absolute(context: Ranges, base_seq: int) -> list[list[int]]:
    """The context in message numbers of the thread."""
    ranges: list[list[int]] = []
    for first, last in context:
        if first > 0:
            revisions.append(ranges, first, last)
        else:
            revisions.append(ranges, base_seq - first, base_seq - last)
    return ranges


def assemble(
    codec: StateCodec[Any],
    row: StateRow,
    fields: str,
    ranges: Ranges,
    stored: Iterable[StoredMessage],
) -> AgentState:
    """The state, with its messages in the order of its context.

    A message that has been deleted since is left out.

    Raises:
        SerializationError: the fields do not fit the state's class.
    """
    by_seq = row.messages or {message.seq: message.data for message in stored}
    seqs = [seq for first, last in ranges for seq in range(first, last + 1) if seq in by_seq]
    generation = row.head.generation
    texts = [by_seq[seq] for seq in seqs]
    with collector_paused():
        messages = codec.messages(texts, [Stored(generation, seq) for seq in seqs])
    state: AgentState = codec.state(codec.decode_fields(fields), messages)
    known = StoredState(
        generation=generation,
        version=row.version,
        fields=fields,
        messages=messages,
        refs=[list(pair) for pair in ranges] if len(seqs) == _count(ranges) else _ranges_of(seqs),
    )
    remember_stored(state, known)
    return state


def _count(ranges: Ranges) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _ranges_of(seqs: Sequence[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for seq in seqs:
        revisions.append(ranges, seq, seq)
    return ranges


def _check(context: Any) -> None:
    if not isinstance(context, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(type(end) is int and end for end in pair)
        for pair in context
    ):
        raise ValueError("its context is not a list of ranges")
