"""The stores that one suite runs over, as parameters of a fixture."""

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from servers.qdrant import QdrantServer

from tenxgraph.storage.store import (
    BaseStore,
    InMemoryStore,
    Mem0Store,
    create_local_qdrant_store,
    create_remote_qdrant_store,
)
from tenxgraph.testing import HashEmbedding, OpenAIServer

os.environ["MEM0_TELEMETRY"] = "False"


STORES = ("in_memory", "qdrant", "remote_qdrant", "mem0")


def mem0_store(folder: Path, server: OpenAIServer) -> Mem0Store:
    service = {"provider": "openai", "config": {"api_key": "k", "openai_base_url": server.base_url}}
    database = {"path": str(folder / "qdrant"), "collection_name": "memories"}
    return Mem0Store(
        {
            "vector_store": {"provider": "qdrant", "config": database},
            "llm": service,
            "embedder": service,
            "history_db_path": str(folder / "history.db"),
        }
    )


@asynccontextmanager
async def opened(kind: str, folder: Path, openai_server: OpenAIServer) -> AsyncIterator[BaseStore]:
    """An empty store of this kind."""
    with ExitStack() as servers:
        made: BaseStore
        match kind:
            case "in_memory":
                made = InMemoryStore(HashEmbedding())
            case "qdrant":
                made = create_local_qdrant_store(folder, HashEmbedding())
            case "remote_qdrant":
                qdrant = servers.enter_context(QdrantServer())
                made = create_remote_qdrant_store(HashEmbedding(), qdrant.url)
            case _:
                made = mem0_store(folder, openai_server)
        async with made:
            yield made
