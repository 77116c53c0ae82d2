"""What a long-term memory is: the record, its kinds, and what a caller may ask to be kept."""

import math
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from tenxgraph.core.state.unicode import valid_text

__all__ = [
    "MemoryPage",
    "MemorySearchResult",
    "MemoryType",
    "NewMemory",
    "WriteMode",
    "checked_content",
    "checked_metadata",
    "checked_text",
    "checked_write_mode",
    "merged_metadata",
    "moment",
]

WriteMode = Literal["merge", "replace"]

_clock = threading.Lock()
_last = datetime.min.replace(tzinfo=UTC)


def moment() -> datetime:
    """This moment in UTC; later than each that was told before in this process.

    Which of two changes is the newer must not depend on a clock that is set back.
    """
    global _last
    with _clock:
        _last = max(datetime.now(UTC), _last + timedelta(microseconds=1))
        return _last


def _renew_clock() -> None:
    """A lock held by another thread at the moment of a fork would stay locked in the child."""
    global _clock
    _clock = threading.Lock()


os.register_at_fork(after_in_child=_renew_clock)

_LARGEST_INTEGER = 2**63 - 1
_MAX_DEPTH = 100


class MemoryType(StrEnum):
    """What kind of thing a memory is about; a label, which a search may filter on."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    ENTITY = "entity"
    RELATIONSHIP = "relationship"
    CUSTOM = "custom"
    DECLARATIVE = "declarative"

    @classmethod
    def known(cls, value: object) -> "MemoryType | None":
        """The type of this name, or `None` if there is no such type."""
        try:
            return cls(value.strip().lower()) if isinstance(value, str) else None
        except ValueError:
            return None

    @classmethod
    def parse(cls, value: object) -> "MemoryType":
        """The type of this name; whatever names no type is `EPISODIC`."""
        return cls.known(value) or cls.EPISODIC


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """One memory to be stored by `astore_many`.

    Attributes:
        content: the text that is remembered and searched by meaning. Never blank.
        memory_type: a `MemoryType` by name; unknown names are `"episodic"`.
        category: a label of your own.
        metadata: JSON values of your own.
        memory_key: at most one memory of a scope has this key; storing again replaces its content.
        idempotency_key: the same key stores the same memory, however often the write is repeated.
    """

    content: str
    memory_type: str = "episodic"
    category: str = "general"
    metadata: Mapping[str, Any] | None = None
    memory_key: str | int | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class MemorySearchResult:
    """One memory, as a search or a look-up returns it.

    Attributes:
        id: names the memory for `aget`, `aupdate` and `adelete`, inside its scope.
        content: the remembered text.
        score: nearness to the query, from 0 to 1, higher is nearer; 1 if it was not searched for.
        memory_type: one of `MemoryType`.
        category: the label it was stored under.
        metadata: the caller's own JSON values.
        user_id: the user it belongs to, or `None` for a memory that no user owns.
        thread_id: the thread in which it was learnt.
        created_at: when it was first stored, in UTC.
        updated_at: when its content was last written, in UTC.
        agent_id: the agent it belongs to, if any.
        app_id: the application it belongs to, if any.
        memory_key: the key that no other memory of its scope has, if any.
        message_id: the message in which the model asked for it.
        tool_call_id: the tool call that made it.
    """

    id: str
    content: str
    score: float = 1.0
    memory_type: str = MemoryType.EPISODIC.value
    category: str = "general"
    metadata: dict[str, Any] = field(default_factory=dict)
    user_id: str | None = None
    thread_id: str | None = None
    created_at: datetime = field(default_factory=moment)
    updated_at: datetime = field(default_factory=moment)
    agent_id: str | None = None
    app_id: str | None = None
    memory_key: str | None = None
    message_id: str | None = None
    tool_call_id: str | None = None


class MemoryPage(list[MemorySearchResult]):
    """A list of memories which knows where the next page begins.

    Attributes:
        cursor: give it to `aget_all` to get the next page; `None` on the last one.
    """

    def __init__(
        self, memories: Iterable[MemorySearchResult] = (), cursor: str | None = None
    ) -> None:
        super().__init__(memories)
        self.cursor = cursor


def checked_content(content: object) -> str:
    """Return the text to remember; `ValueError` if it is blank, or no text.

    Half a surrogate pair becomes U+FFFD: a vector database takes none, and what a tool or a file
    says should not be lost for it.
    """
    if not isinstance(content, str):
        raise ValueError(f"`content` must be text, not {type(content).__name__}.")
    if not content.strip():
        raise ValueError("`content` is blank: there is nothing to remember.")
    return valid_text(content)


def checked_text(text: str, name: str) -> str:
    """The text; `ValueError` if it is not valid Unicode, as half a surrogate pair is not."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"`{name}` is not valid Unicode: {error.reason} at position {error.start}."
        raise ValueError(message) from error
    return text


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of the metadata made of plain JSON values; `ValueError` names what is not JSON."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"`metadata` must be a dict, not {type(metadata).__name__}.")
    return {
        _checked_key(key, "metadata"): _plain(v, f"metadata[{key!r}]")
        for key, v in metadata.items()
    }


def checked_write_mode(write_mode: str) -> WriteMode:
    """The mode of this name, or `ValueError`."""
    if write_mode == "merge":
        return "merge"
    if write_mode == "replace":
        return "replace"
    raise ValueError(f'`write_mode` must be "merge" or "replace", not {write_mode!r}.')


def merged_metadata(
    old: Mapping[str, Any], new: Mapping[str, Any], write_mode: WriteMode
) -> dict[str, Any]:
    """What an update leaves: both (the new value wins) for `"merge"`, the new for `"replace"`."""
    return {**old, **new} if write_mode == "merge" else dict(new)


def _checked_key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise ValueError(f"`{where}` has the key {key!r}; keys must be text.")
    return checked_text(key, where)


def _plain(value: object, where: str) -> Any:
    if where.count("[") > _MAX_DEPTH:
        raise ValueError(f"`metadata` is nested more than {_MAX_DEPTH} deep, or contains itself.")
    match value:
        case None | bool():
            return value
        case str():
            return valid_text(value)
        case int() if abs(value) <= _LARGEST_INTEGER:
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping():
            return {_checked_key(k, where): _plain(v, f"{where}[{k!r}]") for k, v in value.items()}
        case list() | tuple():
            return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise ValueError(
        f"`{where}` is {value!r}, which is no JSON value of at most 64 bits. Turn it into text, a "
        "number, a list or a dict first."
    )
