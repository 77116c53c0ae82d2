"""Entry: a state as it lies in Redis. One JSON object, that begins with its version.

Each message stands on lines of its own, so that a reader has every message's exact text by looking
for the line ends, and a writer puts the texts together that are encoded already. JSON text holds no
raw line end inside of a string, so a line end is never part of a message.
"""

import json
from typing import Any, NamedTuple
from uuid import UUID

from tenxgraph.core.state.agent_state import StoredState

__all__ = ["Entry", "life_of", "pack", "unpack"]

FORMAT = 1
VERSION_FIELD = "__checkpoint_version__"

_FIELDS = '"fields":'
_CONTEXT = ',\n"context":[\n'
_SEPARATOR = ",\n"
_END = "\n]}"
_FOREIGN = "not an entry of this format"


class Entry(NamedTuple):
    """What a value says, with the texts left as they are."""

    version: int
    generation: UUID
    owner: str | None
    """Whose entry it is; `None` where isolation is off."""
    origin: str
    """Which database the thread is kept in."""
    refs: list[list[int]]
    fields: str
    texts: list[str]
    """The messages of the context."""


def pack(stored: StoredState, texts: list[str], *, owner: str | None, origin: str) -> bytes | None:
    """The value for a stored state; `None` if its texts are not of one line each.

    That is possible only where somebody has edited rows by hand.
    """
    head = json.dumps(
        {
            VERSION_FIELD: stored.version,
            "generation": stored.generation.hex,
            "format": FORMAT,
            "owner": owner,
            "origin": origin,
            "refs": stored.refs,
        },
        separators=(",", ":"),
        ensure_ascii=False,
    )
    text = "".join(
        (head[:-1], ",\n", _FIELDS, stored.fields, _CONTEXT, _SEPARATOR.join(texts), _END)
    )
    if text.count("\n") != 3 + max(len(texts), 1):
        return None
    return text.encode()


def unpack(value: bytes) -> Entry:
    """Read what `pack` made.

    Raises:
        ValueError: it is something else, whatever that may be.
    """
    text = value.decode()
    first, found, rest = text.partition(",\n")
    fields, began, body = rest.partition(_CONTEXT)
    if not (found and began and fields.startswith(_FIELDS) and body.endswith(_END)):
        raise ValueError(_FOREIGN)
    head = _head(first)
    body = body.removesuffix(_END)
    entry = Entry(
        version=head[VERSION_FIELD],
        generation=UUID(head["generation"]),
        owner=head["owner"],
        origin=head["origin"],
        refs=head["refs"],
        fields=fields.removeprefix(_FIELDS),
        texts=body.split(_SEPARATOR) if body else [],
    )
    if sum(last - start + 1 for start, last in entry.refs) != len(entry.texts):
        message = "the context is not complete"
        raise ValueError(message)
    return entry


def life_of(value: bytes) -> str:
    """The life of the thread that an entry is of, as the guard reads it; empty if it has none."""
    marker = b'"generation":"'
    start = value.find(marker, 0, 128)
    if not value.startswith(b'{"' + VERSION_FIELD.encode()) or start < 0:
        return ""
    return value[start + len(marker) :].partition(b'"')[0][:32].decode(errors="replace")


def _head(line: str) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(f"{line}}}")
    try:
        ranges_are_sound = all(
            type(start) is int and type(last) is int and 0 < start <= last
            for start, last in head["refs"]
        )
        texts_are_sound = isinstance(head["generation"], str) and type(head["origin"]) is str
        sound = (
            head["format"] == FORMAT and type(head[VERSION_FIELD]) is int and head["owner"] != ""
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError("not an entry of this format") from error
    if not (sound and ranges_are_sound and texts_are_sound):
        raise ValueError("not an entry of this format")
    return head
