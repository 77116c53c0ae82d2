"""Long-term memory: facts that outlive a thread, found by meaning."""

from tenxgraph.storage.store.base import BaseStore
from tenxgraph.storage.store.embedding import (
    BaseEmbedding,
    OpenAIEmbedding,
    WordLlamaEmbedding,
)
from tenxgraph.storage.store.mem0 import Mem0Store
from tenxgraph.storage.store.memory import InMemoryStore
from tenxgraph.storage.store.memory_config import (
    AgentMemoryConfig,
    MemoryConfig,
    UserMemoryConfig,
)
from tenxgraph.storage.store.qdrant import (
    QdrantStore,
    create_local_qdrant_store,
    create_remote_qdrant_store,
)
from tenxgraph.storage.store.records import MemoryPage, MemorySearchResult, MemoryType, NewMemory

__all__ = [
    "AgentMemoryConfig",
    "BaseEmbedding",
    "BaseStore",
    "InMemoryStore",
    "Mem0Store",
    "MemoryConfig",
    "MemoryPage",
    "MemorySearchResult",
    "MemoryType",
    "NewMemory",
    "OpenAIEmbedding",
    "QdrantStore",
    "UserMemoryConfig",
    "WordLlamaEmbedding",
    "create_local_qdrant_store",
    "create_remote_qdrant_store",
]
