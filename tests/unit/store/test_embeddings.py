"""Embeddings: the OpenAI client against a local server, and the one for tests."""

import asyncio
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.embedding import BaseEmbedding, OpenAIEmbedding, WordLlamaEmbedding
from tenxgraph.testing import HashEmbedding, OpenAIServer, RecordedRequest, ServerError

PATH = "/v1/embeddings"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def embedding(server: OpenAIServer) -> Iterator[OpenAIEmbedding]:
    embedding = OpenAIEmbedding(api_key="k3y", base_url=server.base_url)
    yield embedding
    embedding.close()


def cosine(one: list[float], other: list[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / (math.hypot(*one) * math.hypot(*other))


async def test_a_text_becomes_a_vector(embedding: OpenAIEmbedding, server: OpenAIServer) -> None:
    vector = await embedding.aembed("likes tea")
    assert len(vector) == embedding.dimension == 1536
    assert vector == pytest.approx(HashEmbedding(1536).vector("likes tea"), abs=1e-6)
    (request,) = server.requests_to(PATH)
    assert (request.body["model"], request.body["input"]) == (
        "text-embedding-3-small",
        ["likes tea"],
    )
    assert request.headers["authorization"] == "Bearer k3y"
    await embedding.aclose()


async def test_a_list_keeps_its_order_over_several_requests(
    embedding: OpenAIEmbedding, server: OpenAIServer
) -> None:
    texts = [f"fact number {n}" for n in range(4_500)]
    vectors = await embedding.aembed_batch(texts)
    assert [len(request.body["input"]) for request in server.requests_to(PATH)] == [2048, 2048, 404]
    expected = HashEmbedding(1536)
    for index in (0, 2047, 2048, 4499):
        assert vectors[index] == pytest.approx(expected.vector(texts[index]), abs=1e-6)
    await embedding.aclose()


async def test_requests_keep_to_the_limit_of_tokens(
    embedding: OpenAIEmbedding, server: OpenAIServer
) -> None:
    await embedding.aembed_batch(["ж" * 3_000] * 200)
    sizes = [
        sum(len(text.encode()) for text in request.body["input"])
        for request in server.requests_to(PATH)
    ]
    assert sum(sizes) == 200 * 6_000
    assert max(sizes) <= 300_000
    await embedding.aclose()


async def test_a_long_text_is_split_and_nothing_of_it_is_dropped(
    embedding: OpenAIEmbedding, server: OpenAIServer
) -> None:
    text = "слово " * 9_000 + "finally the answer"
    vector = await embedding.aembed(text)
    parts = [part for request in server.requests_to(PATH) for part in request.body["input"]]
    assert "".join(parts) == text
    assert max(len(part.encode()) for part in parts) <= 8_000
    assert math.hypot(*vector) == pytest.approx(1)
    assert cosine(vector, HashEmbedding(1536).vector("слово")) > 0.9
    await embedding.aclose()


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
async def test_blank_text_is_refused_before_any_request(
    embedding: OpenAIEmbedding, server: OpenAIServer, text: str
) -> None:
    with pytest.raises(ValueError, match="blank"):
        await embedding.aembed_batch(["fine", text])
    assert server.requests == []


async def test_no_text_asks_for_nothing(embedding: OpenAIEmbedding, server: OpenAIServer) -> None:
    assert await embedding.aembed_batch([]) == []
    assert server.requests == []


def test_the_dimension_of_known_models_needs_no_request(server: OpenAIServer) -> None:
    for model, dimension in {
        "text-embedding-3-small": 1536,
        "text-embedding-3-large": 3072,
        "text-embedding-ada-002": 1536,
    }.items():
        assert OpenAIEmbedding(model, "k", server.base_url).dimension == dimension
    assert server.requests == []


async def test_the_dimension_of_another_model_is_measured_once(server: OpenAIServer) -> None:
    embedding = OpenAIEmbedding("house-model", "k", server.base_url)
    assert await embedding.adimension() == 1536
    assert embedding.dimension == 1536
    await embedding.aembed("x")
    assert len(server.requests) == 2
    await embedding.aclose()
    other = OpenAIEmbedding("house-model", "k", server.base_url)
    assert other.dimension == 1536
    assert len(server.requests) == 3
    await asyncio.to_thread(other.close)


async def test_a_shorter_vector_can_be_asked_for(server: OpenAIServer) -> None:
    embedding = OpenAIEmbedding(api_key="k", base_url=server.base_url, dimensions=64)
    assert len(await embedding.aembed("x")) == embedding.dimension == 64
    assert server.requests[0].body["dimensions"] == 64
    assert embedding.model == "text-embedding-3-small@64"
    await embedding.aclose()


async def test_a_rate_limit_is_waited_out(embedding: OpenAIEmbedding, server: OpenAIServer) -> None:
    server.fail_embeddings(ServerError(429, "slow down", {"retry-after-ms": "10"}))
    assert len(await embedding.aembed("x")) == 1536
    assert len(server.requests) == 2
    await embedding.aclose()


async def test_a_refusal_is_a_store_error_that_keeps_the_key_secret(
    embedding: OpenAIEmbedding, server: OpenAIServer
) -> None:
    server.fail_embeddings(ServerError(401, "Incorrect API key provided: k3y"))
    with pytest.raises(StoreError, match="text-embedding-3-small") as raised:
        await embedding.aembed("x")
    assert "Incorrect API key" in str(raised.value)
    assert "k3y" not in str(raised.value) + repr(embedding)
    await embedding.aclose()


async def test_a_service_that_is_not_there_is_a_store_error() -> None:
    with OpenAIServer() as gone:
        url = gone.base_url
    embedding = OpenAIEmbedding(api_key="k", base_url=url, max_retries=0)
    with pytest.raises(StoreError, match="APIConnectionError"):
        await embedding.aembed("x")
    await embedding.aclose()


async def test_a_slow_service_is_a_store_error(server: OpenAIServer) -> None:
    server.delay = 0.5
    embedding = OpenAIEmbedding(api_key="k", base_url=server.base_url, timeout=0.05, max_retries=0)
    with pytest.raises(StoreError, match="Timeout"):
        await embedding.aembed("x")
    await embedding.aclose()


async def test_a_missing_key_is_a_store_error_at_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    embedding = OpenAIEmbedding()
    with pytest.raises(StoreError, match="OPENAI_API_KEY"):
        await embedding.aembed("x")


async def test_missing_vectors_are_noticed(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = OpenAIServer.reply

    def short(self: OpenAIServer, request: RecordedRequest) -> dict[str, Any]:
        whole: dict[str, Any] = reply(self, request)
        return whole | {"data": whole["data"][:1]}

    monkeypatch.setattr(OpenAIServer, "reply", short)
    embedding = OpenAIEmbedding(api_key="k", base_url=server.base_url)
    with pytest.raises(StoreError, match="1 vectors for 2 texts"):
        await embedding.aembed_batch(["a", "b"])
    await embedding.aclose()


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": [{"index": 0}]}, {"data": ["x"]}])
async def test_an_answer_that_is_no_embedding_is_a_store_error(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    monkeypatch.setattr(OpenAIServer, "reply", lambda _server, _request: answer)
    embedding = OpenAIEmbedding(api_key="k", base_url=server.base_url, max_retries=0)
    with pytest.raises(StoreError):
        await embedding.aembed("x")
    await embedding.aclose()


def test_the_sync_twins_do_the_same(embedding: OpenAIEmbedding) -> None:
    assert embedding.embed("x") == embedding.embed_batch(["x"])[0]


def test_one_embedding_serves_one_event_loop_after_another(embedding: OpenAIEmbedding) -> None:
    async def use() -> int:
        length = len(await embedding.aembed("x"))
        await embedding.aclose()
        return length

    assert (asyncio.run(use()), asyncio.run(use())) == (1536, 1536)


def test_without_the_package_the_constructor_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"tenxgraph\[openai\]"):
        OpenAIEmbedding()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ImportError, match=r"tenxgraph\[local\]"):
        WordLlamaEmbedding()


async def test_an_embedding_of_ones_own_needs_one_method_and_a_dimension() -> None:
    class Single(BaseEmbedding):
        dimension = 1

        async def aembed(self, text: str) -> list[float]:
            return [float(len(text))]

    class Batch(BaseEmbedding):
        dimension = 1

        async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            return [[float(len(text))] for text in texts]

    for made in (Single(), Batch()):
        assert await made.aembed("abc") == [3.0]
        assert await made.aembed_batch(["a", "ab"]) == [[1.0], [2.0]]
        assert made.model in ("Single", "Batch")

    with pytest.raises(TypeError, match="must override"):

        class Neither(BaseEmbedding):
            dimension = 1


async def test_the_local_embedding_knows_what_words_mean() -> None:
    embedding = WordLlamaEmbedding()
    car, automobile, tax = await embedding.aembed_batch(
        ["the user drives a car", "which automobile does she own?", "tax report due in April"]
    )
    assert len(car) == embedding.dimension == 256
    assert math.hypot(*car) == pytest.approx(1, abs=1e-3)
    assert cosine(car, automobile) > 0.3 > cosine(car, tax)
    assert await embedding.aembed_batch([]) == []
    with pytest.raises(ValueError, match="blank"):
        await embedding.aembed(" ")


def test_the_local_embedding_leaves_logging_alone() -> None:
    script = (
        "import logging\n"
        "from tenxgraph.storage.store import WordLlamaEmbedding\n"
        "WordLlamaEmbedding().embed('likes tea')\n"
        "print(logging.getLogger().handlers, logging.getLogger().level)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[] 30\n", "")


def test_the_hash_embedding_puts_texts_near_that_share_words() -> None:
    embedding = HashEmbedding()
    tea = embedding.vector("the user likes tea")
    assert cosine(tea, embedding.vector("does the user like tea?")) > 0.6
    assert cosine(tea, embedding.vector("Quarterly tax report")) < 0.3
    assert 0.5 < cosine(tea, embedding.vector("the user dislikes tea")) < 0.95
    assert embedding.vector("!?") != embedding.vector("?!")
    assert math.hypot(*tea) == pytest.approx(1)
    assert tea == HashEmbedding().vector("the user likes tea")


def test_the_hash_embedding_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="dimension"):
        HashEmbedding(0)
    with pytest.raises(ValueError, match="blank"):
        HashEmbedding().vector(" ")
