"""How a memory is laid out as a point of Qdrant, and found again."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.query import Where
from tenxgraph.storage.store.records import MemorySearchResult

if TYPE_CHECKING:
    from qdrant_client import models

__all__ = ["filter_of", "memory_of", "payload_of"]

_TEXT_FIELDS = (
    "user_id",
    "agent_id",
    "app_id",
    "memory_type",
    "category",
    "memory_key",
    "thread_id",
    "message_id",
    "tool_call_id",
)


def filter_of(scope: MemoryScope, where: Where) -> "models.Filter":
    """What a point must match to be in the scope and among what is wanted."""
    from qdrant_client import models

    wanted = {name: [value] for name, value in scope.fields().items()} | dict(where)
    return models.Filter(
        must=[
            models.FieldCondition(
                key=name,
                match=models.MatchValue(value=values[0])
                if len(values) == 1
                else models.MatchAny(any=values),
            )
            for name, values in wanted.items()
        ]
    )


def payload_of(record: MemorySearchResult) -> dict[str, Any]:
    """What is kept beside the vector; fields that are filtered on lie at the top."""
    texts = {name: getattr(record, name) for name in _TEXT_FIELDS}
    return {
        "content": record.content,
        "metadata": record.metadata,
        "created_at": record.created_at.isoformat(),
        "updated_at": record.updated_at.isoformat(),
        **{name: value for name, value in texts.items() if value is not None},
        # The memories that no user owns are found by this, so it is never absent.
        "user_id": record.user_id or "",
    }


def memory_of(point_id: Any, payload: dict[str, Any], score: float = 1.0) -> MemorySearchResult:
    """The memory of a point."""
    texts = {name: payload[name] for name in _TEXT_FIELDS if payload.get(name)}
    return MemorySearchResult(
        id=str(point_id),
        content=payload.get("content", ""),
        score=score,
        metadata=payload.get("metadata") or {},
        created_at=datetime.fromisoformat(payload["created_at"]),
        updated_at=datetime.fromisoformat(payload["updated_at"]),
        **texts,
    )
