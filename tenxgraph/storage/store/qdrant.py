"""A store in Qdrant: a folder of this machine, a server, or Qdrant Cloud."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tenxgraph._optional import require
from tenxgraph._per_loop import PerLoop
from tenxgraph.core.exceptions import StoreError, StoreMismatchError
from tenxgraph.storage.store.embedding.base import BaseEmbedding
from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.qdrant_connection import LocalQdrant, QdrantConnection, RemoteQdrant
from tenxgraph.storage.store.qdrant_points import filter_of, memory_of, payload_of
from tenxgraph.storage.store.query import FILTER_FIELDS, Where, matches
from tenxgraph.storage.store.records import MemoryPage, MemorySearchResult
from tenxgraph.storage.store.scores import Distance, checked_distance, score_of
from tenxgraph.storage.store.vector import VectorStore

if TYPE_CHECKING:
    from qdrant_client import models

__all__ = ["QdrantStore", "create_local_qdrant_store", "create_remote_qdrant_store"]

_INDEXED = ("user_id", "agent_id", "app_id", *FILTER_FIELDS)
# Qdrant refuses requests beyond 32 MB. A number of a vector is about 20 bytes of JSON; a text may
# need six for a character.
_POINTS_PER_REQUEST = 256
_BYTES_PER_REQUEST = 24 * 2**20
_BYTES_PER_NUMBER = 22


class QdrantStore(VectorStore):
    """Keeps memories in a Qdrant collection.

    The collection is made at first use, for the embedding's dimension, with an index for every
    field that is ever filtered on. One that exists must have been made for the same dimension,
    distance and embedding model: `StoreError` otherwise, and it is left as it is.

    Args:
        embedding: makes the vectors.
        path: a folder for a local Qdrant, which serves one process; or `":memory:"`.
        host: a server's host.
        port: the server's port, 6333 by default.
        url: a server's URL, instead of host and port.
        api_key: the server's key.
        collection: the collection's name.
        distance: `"cosine"`, `"dot"` or `"euclid"`; scores are 0 to 1 for each.
        timeout: seconds that one request to a server may take.

    Raises:
        ValueError: not exactly one of `path`, `host` and `url` is given.
        ImportError: the package `qdrant-client` is not installed.
    """

    def __init__(  # noqa: PLR0913 - the parameters of the public contract
        self,
        embedding: BaseEmbedding,
        path: str | os.PathLike[str] | None = None,
        host: str | None = None,
        port: int | None = None,
        url: str | None = None,
        api_key: str | None = None,
        collection: str = "tenxgraph_memories",
        distance: Distance = "cosine",
        *,
        timeout: int = 10,
    ) -> None:
        require("qdrant_client", extra="qdrant", wanted_by="QdrantStore")
        super().__init__(embedding)
        self._distance = checked_distance(distance)
        self._collection = collection
        self._connection = _connection(path, host, port, url, api_key, timeout)
        self._ready = False
        self._setting_up = PerLoop(asyncio.Lock)

    def __repr__(self) -> str:
        return f"QdrantStore({self._connection!r}, collection={self._collection!r})"

    @property
    def serves_one_process(self) -> bool:
        """A folder does; a server does not."""
        return self._connection.is_local

    async def asetup(self) -> None:
        """Make the collection and its indexes if need be, and check that it fits the embedding.

        Raises:
            StoreError: Qdrant is away, or the collection was made for another embedding.
        """
        if self._ready:
            return
        async with self._setting_up.current():
            if not self._ready:
                await self._prepare()

    async def _prepare(self) -> None:
        if not await self._call("collection_exists"):
            await self._create()
        info = await self._call("get_collection")
        self._check_fits(info, await self.embedding.adimension())
        if not self._connection.is_local:
            await self._index(set(info.payload_schema or {}))
        self._ready = True

    async def _create(self) -> None:
        from qdrant_client import models

        size = await self.embedding.adimension()
        vectors = models.VectorParams(size=size, distance=models.Distance(self._distance.title()))
        try:
            await self._call(
                "create_collection",
                vectors_config=vectors,
                metadata={"embedding_model": self.embedding.model},
            )
        except StoreError:
            # Another process was faster; whether what it made fits is checked like any other.
            if not await self._call("collection_exists"):
                raise

    async def _index(self, existing: set[str]) -> None:
        from qdrant_client import models

        await asyncio.gather(
            *(
                self._call(
                    "create_payload_index",
                    field_name=name,
                    field_schema=models.KeywordIndexParams(
                        type=models.KeywordIndexType.KEYWORD, is_tenant=name == "user_id"
                    ),
                )
                for name in _INDEXED
                if name not in existing
            )
        )

    def _check_fits(self, info: "models.CollectionInfo", dimension: int) -> None:
        vectors = info.config.params.vectors
        size, distance = getattr(vectors, "size", None), getattr(vectors, "distance", None)
        made_by = (info.config.metadata or {}).get("embedding_model", self.embedding.model)
        if size != dimension:
            problem = f"holds vectors of {size} numbers, but {self.embedding.model!r} makes"
            problem += f" {dimension}"
        elif distance != self._distance.title():
            problem = f"measures the distance {distance!r}, not {self._distance!r}"
        elif made_by != self.embedding.model:
            problem = f"was made with the embedding {made_by!r}, not {self.embedding.model!r}"
        else:
            return
        raise StoreMismatchError(
            f"The collection {self._collection!r} of {self._connection!r} {problem}. Nothing was "
            "changed. Use the embedding it was made with, or another `collection=`."
        )

    async def _aupsert(self, records: list[MemorySearchResult], vectors: list[list[float]]) -> None:
        from qdrant_client import models

        points = [
            models.PointStruct(id=record.id, vector=vector, payload=payload_of(record))
            for record, vector in zip(records, vectors, strict=True)
        ]
        for batch in _batches(points):
            await self._call("upsert", points=batch)

    async def _anearest(
        self, scope: MemoryScope, vector: list[float], where: Where, limit: int
    ) -> list[MemorySearchResult]:
        if self._connection.is_local:
            # The engine in this process filters by Python code for each memory, which costs ten
            # times the search itself. The nearest of all are the nearest of the scope as well, if
            # enough of them belong to it.
            wide = max(limit * 4, 32)
            found = await self._query(vector, None, wide)
            own = [memory for memory in found if scope.holds(memory) and matches(memory, where)]
            if len(own) >= limit or len(found) < wide:
                return own[:limit]
        return await self._query(vector, filter_of(scope, where), limit)

    async def _query(
        self, vector: list[float], wanted: "models.Filter | None", limit: int
    ) -> list[MemorySearchResult]:
        response = await self._call("query_points", query=vector, query_filter=wanted, limit=limit)
        return [
            memory_of(point.id, point.payload or {}, score_of(self._distance, point.score))
            for point in response.points
        ]

    async def _aload(self, ids: list[str]) -> list[MemorySearchResult]:
        points = await self._call("retrieve", ids=ids)
        return [memory_of(point.id, point.payload or {}) for point in points]

    async def _apage(self, scope: MemoryScope, limit: int, cursor: str | None) -> MemoryPage:
        await self.asetup()
        points, following = await self._call(
            "scroll", scroll_filter=filter_of(scope, {}), limit=limit, offset=cursor
        )
        memories = [memory_of(point.id, point.payload or {}) for point in points]
        return MemoryPage(memories, None if following is None else str(following))

    async def _aremove(self, scope: MemoryScope, ids: Sequence[str]) -> None:
        await self._call("delete", points_selector=list(ids))

    async def _aclose(self) -> None:
        self._ready = False
        await self._connection.aclose()
        await super()._aclose()

    async def _call(self, method: str, **arguments: Any) -> Any:
        return await self._connection.call(method, collection_name=self._collection, **arguments)


def _batches(points: "list[models.PointStruct]") -> "Iterator[list[models.PointStruct]]":
    """The points in as many requests as Qdrant takes them in."""
    batch: list[models.PointStruct] = []
    size = 0
    for point in points:
        numbers = point.vector if isinstance(point.vector, list) else ()
        own = len(json.dumps(point.payload)) + len(numbers) * _BYTES_PER_NUMBER
        if batch and (len(batch) == _POINTS_PER_REQUEST or size + own > _BYTES_PER_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += own
    if batch:
        yield batch


def create_local_qdrant_store(
    path: str | os.PathLike[str],
    embedding: BaseEmbedding,
    *,
    collection: str = "tenxgraph_memories",
    distance: Distance = "cosine",
) -> QdrantStore:
    """A store in a folder of this machine; it serves one process and needs no server."""
    return QdrantStore(embedding, path=path, collection=collection, distance=distance)


def create_remote_qdrant_store(
    embedding: BaseEmbedding,
    url: str | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    api_key: str | None = None,
    collection: str = "tenxgraph_memories",
    distance: Distance = "cosine",
    timeout: int = 10,
) -> QdrantStore:
    """A store on a Qdrant server or in Qdrant Cloud, by `url`, or by `host` and `port`."""
    return QdrantStore(
        embedding,
        url=url,
        host=host,
        port=port,
        api_key=api_key,
        collection=collection,
        distance=distance,
        timeout=timeout,
    )


def _connection(
    path: str | os.PathLike[str] | None,
    host: str | None,
    port: int | None,
    url: str | None,
    api_key: str | None,
    timeout: int,
) -> QdrantConnection:
    if sum(place is not None for place in (path, host, url)) != 1:
        raise ValueError("Say where the Qdrant is by exactly one of `path`, `host` and `url`.")
    if path is not None:
        return LocalQdrant(path)
    where = {"url": url, "host": host, "port": port, "api_key": api_key}
    return RemoteQdrant({k: v for k, v in where.items() if v is not None}, timeout)
