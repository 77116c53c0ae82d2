"""How a memory that is to be stored becomes a record: checked, named, and dated."""

import uuid
from datetime import UTC, datetime

from tenxgraph.storage.store.records import (
    MemorySearchResult,
    MemoryType,
    NewMemory,
    checked_content,
    checked_metadata,
    checked_text,
)
from tenxgraph.storage.store.scope import Provenance, Scope

__all__ = ["checked_category", "checked_key", "new_record"]


def new_record(scope: Scope, provenance: Provenance, new: NewMemory) -> MemorySearchResult:
    """The record of a new memory; `ValueError` says what of it cannot be kept.

    Its id is made of its key where it has one, and is a random one otherwise.
    """
    now = datetime.now(UTC)
    key = None if new.memory_key in (None, "") else checked_key(new.memory_key)
    if key is not None:
        memory_id = scope.id_for("key", key)
    elif new.idempotency_key:
        memory_id = scope.id_for("write", new.idempotency_key)
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
        thread_id=provenance.thread_id,
        message_id=provenance.message_id,
        tool_call_id=provenance.tool_call_id,
        created_at=now,
        updated_at=now,
    )


def checked_key(key: object) -> str:
    """The key as text, or `ValueError`."""
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if not isinstance(key, str) or not key.strip():
        raise ValueError(f"`memory_key` must be text, such as 'favorite_language', not {key!r}.")
    return checked_text(key, "memory_key")


def checked_category(category: object) -> str:
    """The label, `"general"` if there is none; `ValueError` if it cannot be one."""
    if category is None or category == "":
        return "general"
    if not isinstance(category, str):
        raise ValueError(f"`category` must be text, not {category!r}.")
    return checked_text(category, "category")
