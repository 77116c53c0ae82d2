"""What is kept: threads by checkpointers, facts across threads by stores."""

from tenxgraph.storage.checkpointer import create_checkpointer
from tenxgraph.storage.store import (
    Mem0Store,
    QdrantStore,
    create_local_qdrant_store,
    create_remote_qdrant_store,
)

__all__ = [
    "Mem0Store",
    "QdrantStore",
    "create_checkpointer",
    "create_local_qdrant_store",
    "create_remote_qdrant_store",
]
