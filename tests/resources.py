"""Objects that open something in each event loop, as programs of the tests use them."""

from collections.abc import Awaitable, Callable
from typing import Any

from threads import config, state

from tenxgraph._sync import closing_twin
from tenxgraph.core.graph.openai_model import OpenAIModel
from tenxgraph.core.state import Message
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.checkpointer import PgCheckpointer
from tenxgraph.storage.store import InMemoryStore, OpenAIEmbedding, QdrantStore
from tenxgraph.testing import HashEmbedding

KINDS = ["sqlite", "postgres", "redis", "model", "embedding", "graph", "qdrant", "local-qdrant"]

_ALICE = {"user_id": "alice"}


class Resource:
    """One such object: `ause` opens something in the running loop, `close` and `aclose` end it."""

    def __init__(self, owner: Any, use: Callable[[Any], Awaitable[Any]]) -> None:
        self.owner = owner
        self._use = use

    async def ause(self) -> None:
        await self._use(self.owner)

    async def aclose(self) -> None:
        await self.owner.aclose()

    def close(self) -> None:
        self.owner.close()


def open_resource(kind: str, *places: str) -> Resource:
    """Make the object of a kind, at its server or file."""
    return _MAKERS[kind](*places)


def _sqlite(path: str) -> Resource:
    return Resource(create_checkpointer(path), _write_and_read)


def _postgres(dsn: str) -> Resource:
    return Resource(create_checkpointer(dsn), _write_and_read)


def _redis(dsn: str, url: str) -> Resource:
    # A slow machine must not make Redis look as if it were away.
    return Resource(PgCheckpointer(dsn, redis_url=url, cache_timeout=10), _write_and_read)


def _model(base_url: str) -> Resource:
    async def answer(model: Any) -> None:
        await model.answer([Message.text_message("hi")], [], lambda _: None)

    return Resource(_ClosableModel("gpt-4o-mini", base_url=base_url, api_key="k"), answer)


def _embedding(base_url: str) -> Resource:
    store = InMemoryStore(OpenAIEmbedding(api_key="k", base_url=base_url))
    return Resource(store, _remember)


def _graph(base_url: str) -> Resource:
    async def invoke(app: Any) -> None:
        await app.ainvoke("hi")

    model = OpenAIModel("gpt-4o-mini", base_url=base_url, api_key="k")
    return Resource(ReactAgent(model).compile(), invoke)


def _qdrant(url: str) -> Resource:
    return Resource(QdrantStore(HashEmbedding(), url=url), _remember)


def _local_qdrant(path: str) -> Resource:
    return Resource(QdrantStore(HashEmbedding(), path=path), _remember)


async def _write_and_read(checkpointer: Any) -> None:
    await checkpointer.aput_state(config(), state("a"))
    await checkpointer.aget_state(config())
    await checkpointer.aget_state_cache(config())


async def _remember(store: Any) -> None:
    await store.astore(_ALICE, "Alice likes tea")


class _ClosableModel(OpenAIModel):
    """A model with the sync twin that a graph has."""

    close = closing_twin(OpenAIModel.aclose)


_MAKERS: dict[str, Callable[..., Resource]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
    "model": _model,
    "embedding": _embedding,
    "graph": _graph,
    "qdrant": _qdrant,
    "local-qdrant": _local_qdrant,
}
