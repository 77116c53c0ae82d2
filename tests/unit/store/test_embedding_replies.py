"""Servers that speak OpenAI's embeddings protocol in ways of their own, with the real client."""

import base64
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.embedding import OpenAIEmbedding
from tenxgraph.testing import HashEmbedding, OpenAIServer, RecordedRequest, ServerError

PATH = "/v1/embeddings"
TEXTS = ["likes tea", "lives in Oslo", "plays chess"]

Items = list[dict[str, Any]]


class DeviatingServer(OpenAIServer):
    """A server whose embedding replies are changed before they are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.change: Callable[[Items], Items] = list
        self.refusal: Callable[[dict[str, Any]], ServerError | None] = lambda body: None

    def reply(self, request: RecordedRequest) -> Any:
        whole = super().reply(request)
        refusal = self.refusal(request.body)
        if refusal is not None:
            raise refusal
        return whole | {"data": self.change(whole["data"])}

    def formats(self) -> list[str | None]:
        return [request.body.get("encoding_format") for request in self.requests_to(PATH)]


@pytest.fixture
def server() -> Iterator[DeviatingServer]:
    with DeviatingServer() as server:
        yield server


@asynccontextmanager
async def embedding_on(server: OpenAIServer, **options: Any) -> AsyncIterator[OpenAIEmbedding]:
    made = OpenAIEmbedding(api_key="k", base_url=server.base_url, max_retries=0, **options)
    yield made
    await made.aclose()


def assert_vectors_of_texts(vectors: list[list[float]]) -> None:
    maker = HashEmbedding(1536)
    assert len(vectors) == len(TEXTS)
    for vector, text in zip(vectors, TEXTS, strict=True):
        assert vector == pytest.approx(maker.vector(text), abs=1e-6)


def with_indices(*indices: Any) -> Callable[[Items], Items]:
    return lambda items: [
        item | {"index": index} for item, index in zip(items, indices, strict=True)
    ]


def without_indices(items: Items) -> Items:
    return [{k: v for k, v in item.items() if k != "index"} for item in items]


@pytest.mark.parametrize(
    "change",
    [
        without_indices,
        with_indices(None, None, None),
        with_indices(0, 0, 0),
        with_indices(2, 1, 1),
        with_indices(1, None, 0),
        with_indices("a", "c", "b"),
        with_indices(2, 1, 7),
        with_indices(True, False, 2),
        with_indices([0], {}, 1.5),
        with_indices(-1, 0, 1),
    ],
)
async def test_without_complete_indices_the_order_of_the_reply_counts(
    server: DeviatingServer, change: Callable[[Items], Items]
) -> None:
    server.change = change
    async with embedding_on(server) as embedding:
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))


@pytest.mark.parametrize("kind", [int, str, float])
async def test_complete_indices_decide_the_order(
    server: DeviatingServer, kind: Callable[[Any], Any]
) -> None:
    server.change = lambda items: [
        item | {"index": kind(item["index"])} for item in (items[2], items[0], items[1])
    ]
    async with embedding_on(server) as embedding:
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))


REFUSALS = [
    ServerError(400, "encoding_format: base64 is not supported"),
    ServerError(422, "[{'loc': ['body', 'encoding_format'], 'msg': \"Input should be 'float'\"}]"),
    ServerError(400, "Only float embeddings; BASE64 unknown"),
    ServerError(400, "only float is supported"),
    ServerError(501, "base64 is not implemented"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_server_that_refuses_base64_is_asked_for_floats_from_then_on(
    server: DeviatingServer, refusal: ServerError
) -> None:
    server.refusal = lambda body: refusal if body["encoding_format"] == "base64" else None
    async with embedding_on(server) as embedding:
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))
    assert server.formats() == ["base64", "float", "float"]


def as_json_text(item: dict[str, Any]) -> dict[str, Any]:
    numbers = struct.unpack(f"<{1536}f", base64.b64decode(item["embedding"]))
    return item | {"embedding": str(list(numbers))}


def cut(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"embedding": base64.b64encode(b"123456").decode()}


@pytest.mark.parametrize("damage", [as_json_text, cut, lambda item: item | {"embedding": ""}])
async def test_text_that_is_no_base64_is_asked_for_as_floats(
    server: DeviatingServer, damage: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    server.change = lambda items: [
        damage(item) if isinstance(item["embedding"], str) else item for item in items
    ]
    async with embedding_on(server) as embedding:
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))
    assert server.formats() == ["base64", "float", "float"]


async def test_a_server_that_answers_floats_to_base64_is_not_asked_twice(
    server: DeviatingServer,
) -> None:
    maker = HashEmbedding(1536)
    server.change = lambda items: [
        item | {"embedding": maker.vector(text)} for item, text in zip(items, TEXTS, strict=True)
    ]
    async with embedding_on(server) as embedding:
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))
    assert server.formats() == ["base64"]


async def test_another_refusal_is_not_taken_for_one_of_base64(server: DeviatingServer) -> None:
    server.refusal = lambda body: ServerError(400, "The model does not exist")
    async with embedding_on(server) as embedding:
        with pytest.raises(StoreError, match="does not exist"):
            await embedding.aembed_batch(TEXTS)
    assert server.formats() == ["base64"]


async def test_floats_that_fail_as_well_are_not_remembered(server: DeviatingServer) -> None:
    server.refusal = lambda body: ServerError(400, "encoding_format is not supported today")
    async with embedding_on(server) as embedding:
        with pytest.raises(StoreError, match="not supported today"):
            await embedding.aembed_batch(TEXTS)
        server.refusal = lambda body: None
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))
    assert server.formats() == ["base64", "float", "base64"]


@pytest.mark.parametrize("encoding_format", ["base64", "float"])
async def test_a_chosen_format_is_the_only_one_asked_for(
    server: DeviatingServer, encoding_format: Any
) -> None:
    async with embedding_on(server, encoding_format=encoding_format) as embedding:
        assert_vectors_of_texts(await embedding.aembed_batch(TEXTS))
        server.refusal = lambda body: REFUSALS[0]
        with pytest.raises(StoreError, match="encoding_format"):
            await embedding.aembed_batch(TEXTS)
    assert server.formats() == [encoding_format] * 2


def test_an_unknown_format_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r'encoding_format.*"float".*base32'):
        OpenAIEmbedding(api_key="k", encoding_format="base32")  # type: ignore[arg-type]
