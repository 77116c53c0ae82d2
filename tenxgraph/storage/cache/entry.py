"""Entry: a state as it lies in Redis. One JSON object, that begins with its version.

Each message stands on lines of its own, so that a reader has every message's exact text by looking
for the line ends, and a writer puts the texts together that are encoded already. JSON text holds no
raw line end inside of a string, so a line end is never part of a message.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from tenxgraph.core.state.agent_state import StoredState

__all__ = ["Body", "Change", "Entry", "Label", "change", "life_of", "pack", "unpack"]

FORMAT = 1
VERSION_FIELD = "__checkpoint_version__"
SEPARATOR = b",\n"
"""Between two messages in a body, and nowhere else."""

_FIELDS = b'"fields":'
_CONTEXT = b',\n"context":[\n'
_END = b"\n]}"
# Where the messages begin is rounded up, so that the next value mostly has them at the same place.
_ROOM = 256
_FOREIGN = "not an entry of this format"


@dataclass(frozen=True, slots=True)
class Body:
    """The messages of a value, where they are in it."""

    value: bytes
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def view(self) -> memoryview:
        """The bytes, not copied."""
        return memoryview(self.value)[self.start : self.end]

    def goes_on_from(self, other: "Body") -> bool:
        """Whether these are the other's messages, byte by byte, and maybe more behind them."""
        end = self.start + len(other)
        behind = self.value[end : min(end + len(SEPARATOR), self.end)]
        same = self.value.startswith(other.view(), self.start, self.end)
        return same and behind in (b"", SEPARATOR)

    def texts(self, behind: int = 0) -> list[str]:
        """The texts of the messages, or of those behind so many bytes.

        Raises:
            ValueError: it is no UTF-8.
        """
        rest = self.value[self.start + behind : self.end].removeprefix(SEPARATOR if behind else b"")
        return rest.decode().split(SEPARATOR.decode()) if rest else []


class Change(NamedTuple):
    """What is to be written into a value that is there, to make the next one of it."""

    opening_before: bytes
    length_before: int
    opening: bytes
    end_at: int
    end: bytes
    """The new messages, in the place of the old end."""


class Label(NamedTuple):
    """Which thread an entry is of. Whoever asks for one must not be given another's."""

    origin: str
    """The database in which it is kept."""
    thread_id: str
    owner: str | None
    """`None` where isolation is off."""


class Entry(NamedTuple):
    """What a value says, with the texts left as they are."""

    version: int
    generation: UUID
    label: Label
    refs: list[list[int]]
    fields: str
    body: Body


def pack(
    stored: StoredState, label: Label, texts: Sequence[str], before: Body | None = None
) -> tuple[bytes, Body] | None:
    """The value for a stored state, and where in it the messages are.

    Args:
        stored: the state.
        label: whose it is.
        texts: its messages, or those that come behind `before`.
        before: the messages with which another value begins as this one does.

    Returns:
        `None` if a text has line ends: somebody has edited rows by hand.
    """
    added = "\n".join(texts)
    if added.count("\n") != max(len(texts) - 1, 0) or "\n" in stored.fields:
        return None
    head = _head_of(stored, label)
    opening = b"".join((head, b",\n", _FIELDS, stored.fields.encode()))
    opening += b" " * (-(len(opening) + len(_CONTEXT)) % _ROOM) + _CONTEXT
    known = before.view() if before is not None else b""
    separator = SEPARATOR if known and texts else b""
    messages = added.replace("\n", ",\n").encode()
    # In one go: at a thousand messages, to copy them once more costs as much as all the rest.
    value = b"".join((opening, known, separator, messages, _END))
    return value, Body(value, len(opening), len(value) - len(_END))


def change(before: Body, after: Body) -> Change | None:
    """How to get from one value to another that has the same messages, and maybe more behind them.

    Sending this instead of the whole value makes a refresh cost what is new, not what is there.
    `None` if the messages have moved.
    """
    if before.start != after.start:
        return None
    return Change(
        opening_before=before.value[: before.start],
        length_before=len(before.value),
        opening=after.value[: after.start],
        end_at=before.end,
        end=after.value[before.end :],
    )


def unpack(value: bytes) -> Entry:
    """Read what `pack` made; the messages are not looked into.

    Raises:
        ValueError: it is something else, whatever that may be.
    """
    start = value.find(_CONTEXT)
    first, found, fields = value[: max(start, 0)].partition(b",\n")
    if not (found and fields.startswith(_FIELDS) and value.endswith(_END)):
        raise ValueError(_FOREIGN)
    head = _read_head(first)
    if head["generation"] != life_of(value):  # the guard could not tell what it is
        raise ValueError(_FOREIGN)
    return Entry(
        version=head[VERSION_FIELD],
        generation=UUID(head["generation"]),
        label=Label(head["origin"], head["thread"], head["owner"]),
        refs=head["refs"],
        fields=fields[len(_FIELDS) :].rstrip(b" ").decode(),
        body=Body(value, start + len(_CONTEXT), len(value) - len(_END)),
    )


def life_of(value: bytes) -> str:
    """The life of the thread that an entry is of, as the guard reads it; empty if it has none."""
    marker = b'"generation":"'
    start = value.find(marker, 0, 128)
    if not value.startswith(b'{"' + VERSION_FIELD.encode()) or start < 0:
        return ""
    return value[start + len(marker) :][:33].partition(b'"')[0].decode(errors="replace")


def _head_of(stored: StoredState, label: Label) -> bytes:
    head = json.dumps(
        {
            VERSION_FIELD: stored.version,
            "generation": stored.generation.hex,
            "format": FORMAT,
            "origin": label.origin,
            "thread": label.thread_id,
            "owner": label.owner,
            "refs": stored.refs,
        },
        separators=(",", ":"),
        ensure_ascii=False,
    )
    return head[:-1].encode()


def _read_head(line: bytes) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(line + b"}")
    try:
        ranges_are_sound = all(
            type(start) is int and type(last) is int and 0 < start <= last
            for start, last in head["refs"]
        )
        sound = (
            head["format"] == FORMAT
            and type(head[VERSION_FIELD]) is int
            and all(type(head[name]) is str for name in ("generation", "origin", "thread"))
            and (head["owner"] is None or type(head["owner"]) is str)
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(_FOREIGN) from error
    if not (sound and ranges_are_sound):
        raise ValueError(_FOREIGN)
    return head
