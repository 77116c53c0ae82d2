"""How a memory that is to be stored, or changed, becomes a record: checked, named, and dated."""

import dataclasses
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tenxgraph.core.state.unicode import valid_unicode
from tenxgraph.storage.store.memory_scope import MemoryScope, Provenance
from tenxgraph.storage.store.records import (
    MemorySearchResult,
    MemoryType,
    NewMemory,
    WriteMode,
    checked_content,
    checked_metadata,
    checked_text,
    merged_metadata,
    moment,
)

__all__ = ["changed", "checked_category", "checked_key", "checked_memories", "new_record"]


def new_record(
    scope: MemoryScope, provenance: Provenance, new: NewMemory, at: datetime | None = None
) -> MemorySearchResult:
    """The record of a new memory; `ValueError` says what of it cannot be kept.

    Its id is made of its key where it has one, and is a random one otherwise.
    """
    now = moment() if at is None else at
    key = None if new.memory_key in (None, "") else checked_key(new.memory_key)
    if key is not None:
        memory_id = scope.id_for("key", key)
    elif new.idempotency_key:
        memory_id = scope.id_for("write", _checked_repeat(new.idempotency_key))
    else:
        memory_id = str(uuid.uuid4())
    return MemorySearchResult(
        id=memory_id,
        content=checked_content(new.content),
        memory_type=MemoryType.parse(new.memory_type).value,
        category=checked_category(new.category),
        metadata=checked_metadata(new.metadata),
        user_id=scope.user_id,
        agent_id=scope.agent_id,
        app_id=scope.app_id,
        memory_key=key,
        thread_id=valid_unicode(provenance.thread_id),
        message_id=valid_unicode(provenance.message_id),
        tool_call_id=valid_unicode(provenance.tool_call_id),
        created_at=now,
        updated_at=now,
    )


def changed(
    old: MemorySearchResult,
    content: str,
    metadata: Mapping[str, Any],
    write_mode: WriteMode,
    at: datetime,
) -> MemorySearchResult:
    """The record of a memory after an update."""
    merged = merged_metadata(old.metadata, metadata, write_mode)
    return dataclasses.replace(old, content=content, metadata=merged, updated_at=at)


def checked_key(key: object) -> str:
    """The key as text, or `ValueError`."""
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if not isinstance(key, str) or not key.strip():
        raise ValueError(f"`memory_key` must be text, such as 'favorite_language', not {key!r}.")
    return checked_text(key, "memory_key")


def checked_memories(memories: object) -> list[NewMemory]:
    """The memories, or `ValueError` if something among them is none."""
    checked: list[NewMemory] = []
    for one in memories if isinstance(memories, Iterable) else (memories,):
        if not isinstance(one, NewMemory):
            raise ValueError(f"`memories` must be a list of NewMemory, not of {one!r}.")
        checked.append(one)
    return checked


def _checked_repeat(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError(f"`idempotency_key` must be text, not {key!r}.")
    return checked_text(key, "idempotency_key")


def checked_category(category: object) -> str:
    """The label, `"general"` if there is none; `ValueError` if it cannot be one."""
    if category is None or category == "":
        return "general"
    if not isinstance(category, str):
        raise ValueError(f"`category` must be text, not {category!r}.")
    return checked_text(category, "category")
