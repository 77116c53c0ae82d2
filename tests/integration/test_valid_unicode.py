"""What leaves for another server is valid UTF-8, and what is stored stays as it is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from graphs import config, said
from pydantic import BaseModel, Field

from tenxgraph.core.graph import tool
from tenxgraph.core.graph.openai_model import OpenAIModel
from tenxgraph.core.state import Message
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.store import MemoryConfig, OpenAIEmbedding
from tenxgraph.storage.store.memory import InMemoryStore
from tenxgraph.testing import HashEmbedding, OpenAIServer, VerbatimStream

HALF, REPLACED = "half \ud83d", "half \ufffd"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def agent(server: OpenAIServer, *tools: Any, **options: Any) -> ReactAgent[Any]:
    return ReactAgent("m", list(tools), base_url=server.base_url, api_key="k", **options)


@tool(description=HALF)
def read(path: str) -> str:
    """Read a file."""
    return HALF


async def test_output_arguments_prompt_and_schemas_are_sent_as_utf8(server: OpenAIServer) -> None:
    arguments = json.dumps({"path": HALF}, ensure_ascii=False)
    call = {"index": 0, "id": HALF, "function": {"name": "read", "arguments": arguments}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "stop"}]}
    server.add_answers(VerbatimStream([chunk]), "ok", "again")
    async with agent(server, read, system_prompt=HALF).compile() as app:
        await app.ainvoke(HALF, config())
        result = await app.ainvoke("more", config())
    assert said(result["state"])[:3] == [f"user: {HALF}", "assistant: ", f"tool: {HALF}"]
    for request in server.requests[1:]:
        system, user, answer, output = request.body["messages"][:4]
        assert (system["content"], user["content"]) == (REPLACED, REPLACED)
        assert json.loads(answer["tool_calls"][0]["function"]["arguments"]) == {"path": REPLACED}
        assert (output["content"], output["tool_call_id"]) == (REPLACED, REPLACED)
        assert request.body["tools"][0]["function"]["description"] == REPLACED


async def test_output_schema_and_options_are_sent_as_utf8(server: OpenAIServer) -> None:
    class Answer(BaseModel):
        text: str = Field(description=HALF)

    server.add_answers('{"text": "x"}')
    async with agent(server, output_schema=Answer, user=HALF).compile() as app:
        await app.ainvoke("hi", config())
    body = server.requests[0].body
    assert body["user"] == REPLACED
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["text"]["description"] == REPLACED


async def test_parts_are_sent_as_utf8(server: OpenAIServer) -> None:
    server.add_answers("ok")
    parts = [{"type": "text", "text": HALF}, {"type": "text", "text": "b"}]
    model = OpenAIModel("m", base_url=server.base_url, api_key="k")
    await model.answer([Message.from_openai({"role": "user", "content": parts})], [], print)
    await model.aclose()
    assert server.requests[0].body["messages"][0]["content"][0]["text"] == REPLACED


async def test_preload_finds_memories_for_half_a_pair(server: OpenAIServer) -> None:
    store = InMemoryStore(HashEmbedding())
    await store.astore({"user_id": "u"}, "half a pair")
    server.add_answers("ok")
    memory = MemoryConfig(store=store, retrieval_mode="preload")
    async with agent(server, memory=memory).compile() as app:
        await app.ainvoke(HALF, config())
    assert "half a pair" in server.requests[0].body["messages"][0]["content"]


async def test_texts_are_embedded_as_utf8(server: OpenAIServer) -> None:
    embedding = OpenAIEmbedding(api_key="k", base_url=server.base_url)
    half, replaced = await embedding.aembed_batch([HALF, REPLACED])
    assert half == replaced
    assert server.requests[0].body["input"] == [REPLACED, REPLACED]
    assert len(await embedding.aembed("\ud83d" * 20_000)) == embedding.dimension
    await embedding.aclose()
