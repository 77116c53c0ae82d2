"""The OpenAPI document says what the server answers: every route, every error, every event."""

import json
import os
import random
import re
from collections.abc import Callable
from typing import Any

import fuzz_server
import httpx
import jsonschema_rs
import pytest
from graphs import chain
from serving import events, serving

from tenxgraph.core.exceptions import TransientStorageError
from tenxgraph.core.graph import Chunk, interrupt
from tenxgraph.core.state import (
    AgentState,
    AudioBlock,
    DataBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    UnknownBlock,
)
from tenxgraph.server import RunLimits, create_app
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding

BLOCKS = (
    TextBlock(text="hi"),
    ImageBlock(url="https://example.com/a.png", detail="low"),
    ImageBlock(data=b"\xff\x00", media_type="image/png"),
    AudioBlock(data=b"\x00", media_type="audio/wav", transcript="la"),
    DocumentBlock(file_id="f1", name="a.pdf"),
    DataBlock(data={"a": [1, None, 2.5]}),
    ToolCallBlock(call=ToolCall(id="c", name="pay", args={"n": 1})),
    ToolResultBlock(call_id="c", name="pay", output={"ok": True}, is_error=False),
    ReasoningBlock(text="so", signature="s"),
    ErrorBlock(message="oh", code="e"),
    UnknownBlock.model_validate({"type": "hologram", "depth": 3}),
)


def talk(state: AgentState, emit: Callable[[Any], None]) -> list[Message]:
    """Say something of every kind; ask or fail where the user wants it."""
    text = state.context[-1].text() if state.context else ""
    if text == "fail":
        raise RuntimeError("no")
    emit({"step": 1})
    emit(Chunk(type="token", text="hel"))
    said = Message.assistant("hello").model_copy(update={"content": BLOCKS, "reasoning": "hm"})
    if text == "ask":
        said = Message.assistant(str(interrupt({"sure": True})))
    return [said]


class Described:
    """A client whose every answer is checked against the document."""

    def __init__(self, client: httpx.AsyncClient, document: dict[str, Any]) -> None:
        self._client = client
        self._document = document
        self.seen: set[tuple[str, int]] = set()
        """Operations, and the statuses that they were answered with."""

    async def send(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        if body is not None:
            options["json"] = body
        response = await self._client.request(method, path, **options)
        name, operation = self._operation(method, path.partition("?")[0])
        self.seen.add((name, response.status_code))
        described = operation["responses"][str(response.status_code)]
        content = described.get("content")
        if content is None:
            assert response.content == b"", name
            return None
        (kind,) = content
        assert response.headers["content-type"].partition(";")[0] == kind, name
        if kind == "text/event-stream":
            return response.text
        self.check(content[kind]["schema"], response.json())
        return response.json()

    def check(self, schema: dict[str, Any], value: Any) -> None:
        whole = {**schema, "components": self._document["components"]}
        validator = jsonschema_rs.Draft202012Validator(whole)
        assert [error.message for error in validator.iter_errors(value)] == [], value

    def _operation(self, method: str, path: str) -> tuple[str, dict[str, Any]]:
        for template, methods in sorted(self._document["paths"].items(), key=_wildness):
            pattern = re.sub(r"\\{[^}]+\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, path) and method.lower() in methods:
                operation = methods[method.lower()]
                return operation["operationId"], operation
        raise AssertionError(f"{method} {path} is not in the document")

    def operations(self) -> set[str]:
        paths = self._document["paths"].values()
        return {operation["operationId"] for methods in paths for operation in methods.values()}


def _wildness(item: tuple[str, Any]) -> int:
    return item[0].count("{")


def graph(**options: Any) -> Any:
    return chain(talk, store=InMemoryStore(HashEmbedding()), **options)


async def test_every_route_answers_as_the_document_says() -> None:
    app = create_app(graph())
    async with serving(app) as client:
        described = Described(client, app.openapi())
        send = described.send
        config = {"thread_id": "t", "run_id": "r"}
        message = {"content": "hi", "message_id": "a/b"}
        await send("POST", "/v1/graph/invoke", {"messages": [message], "config": config})
        for text in ("hi", "ask"):
            body = {"messages": text, "config": {"thread_id": "s"}}
            await send("POST", "/v1/graph/stream", body)
        await send("POST", "/v1/graph/invoke", {"messages": "ask", "config": {"thread_id": "q"}})
        for path in ("/v1/graph", "/v1/threads", "/v1/threads/t", "/ping", "/health/ready"):
            await send("GET", path)
        await send("PUT", "/v1/threads/t", {"thread_name": "T", "metadata": {"a": [1]}})
        for path in ("", "/state", "/state?version=1", "/states", "/messages", "/messages?last=2"):
            await send("GET", f"/v1/threads/t{path}")
        await send("GET", "/v1/threads/q/state")
        await send("GET", "/v1/threads/t/messages/a%2Fb")
        await send("POST", "/v1/threads/t/fork", {})
        await send("POST", "/v1/graph/stop", {"thread_id": "t"})
        made = await send("POST", "/v1/store/memories", {"content": "likes tea"})
        await send("POST", "/v1/store/search", {"query": "tea"})
        await send("GET", "/v1/store/memories")
        await send("GET", f"/v1/store/memories/{made['id']}")
        await send("PATCH", f"/v1/store/memories/{made['id']}", {"content": "likes milk"})
        await send("DELETE", f"/v1/store/memories/{made['id']}")
        await send("POST", "/v1/store/forget", {})
        (first, *_) = (await send("GET", "/v1/threads/s/messages"))["items"]
        await send("GET", f"/v1/threads/s/messages/{first['message_id']}")
        await send("DELETE", f"/v1/threads/s/messages/{first['message_id']}")
        await send("DELETE", "/v1/threads/t")
        answered = {name for name, status in described.seen if status < 300}
        assert answered == described.operations()


def allow(user: Any, action: str, _resource: Any) -> Any:
    return "owner" if user.user_id != "guest" or action.endswith("read") else False


def by_header(request: Any) -> str | None:
    name: str | None = request.headers.get("x-user")
    return name


async def test_every_error_is_answered_as_the_document_says() -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    options: dict[str, Any] = {"auth": by_header, "authorization": allow, "max_body_bytes": 2048}
    app = create_app(graph(checkpointer=checkpointer), **options)
    alice: dict[str, Any] = {"headers": {"x-user": "alice"}}
    guest: dict[str, Any] = {"headers": {"x-user": "guest"}}
    async with serving(app) as client:
        described = Described(client, app.openapi())
        send = described.send
        run = ("POST", "/v1/graph/invoke")
        asked = {"messages": "ask", "config": {"thread_id": "t"}}
        await send(*run, asked, **alice)
        rows: list[tuple[int, str, str, Any, dict[str, Any]]] = [
            (400, "GET", "/ping", None, {"headers": {"host": "evil.example"}}),
            (401, *run, {}, {}),
            (401, "GET", "/v1/threads", None, {}),
            (403, *run, {}, guest),
            (403, "DELETE", "/v1/threads/t", None, guest),
            (404, "GET", "/v1/threads/nowhere", None, alice),
            (404, "POST", "/v1/graph/stop", {"thread_id": "nowhere"}, alice),
            (409, *run, asked, alice),
            (409, "POST", "/v1/threads/t/fork", {"thread_id": "t"}, alice),
            (413, *run, {"messages": "x" * 4000}, alice),
            (415, "POST", "/v1/store/forget", None, alice),
            (422, *run, {"messages": 3}, alice),
            (422, "GET", "/v1/threads?limit=0", None, alice),
            (500, *run, {"messages": "fail"}, alice),
        ]
        for status, method, path, body, more in rows:
            await send(method, path, body, **more)
            assert any(seen == status for _, seen in described.seen), (status, path)

        async def away(*_: Any, **__: Any) -> Any:
            raise TransientStorageError("away")

        checkpointer.aget_state = away  # type: ignore[method-assign]
        await send(*run, {"messages": "hi"}, **alice)
        assert ("invoke_graph", 503) in described.seen


async def test_a_run_too_many_is_answered_as_the_document_says() -> None:
    app = create_app(graph(), limits=RunLimits(max_runs=1))
    app.state.deployment.slots.take("somebody")
    async with serving(app) as client:
        described = Described(client, app.openapi())
        for path in ("invoke", "stream"):
            await described.send("POST", f"/v1/graph/{path}", {"messages": "hi"})
        assert {status for _, status in described.seen} == {429}


def _events_of(document: dict[str, Any]) -> dict[str, Any]:
    operation = document["paths"]["/v1/graph/stream"]["post"]
    items = operation["responses"]["200"]["content"]["text/event-stream"]["itemSchema"]
    properties = [one["properties"] for one in items["oneOf"]]
    return {one["event"]["const"]: one["data"]["contentSchema"] for one in properties}


async def test_every_event_is_as_the_document_says() -> None:
    app = create_app(graph())
    document = app.openapi()
    schemas, names = _events_of(document), set()
    async with serving(app) as client:
        described = Described(client, document)
        for text in ("hi", "ask", "fail"):
            body = {"messages": text, "config": {"thread_id": text}}
            async with events(client, **body) as heard:
                async for name, data in heard:
                    described.check(schemas[name], data)
                    names.add(name)
    assert names == set(schemas)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_the_schema_of_a_block_refuses_another_form(block: Any) -> None:
    """A known type with a field of another kind is valid by no branch, not by the unknown one's."""
    app = create_app(graph())
    schema = {"$ref": "#/components/schemas/Message", "components": app.openapi()["components"]}
    validator = jsonschema_rs.Draft202012Validator(schema)
    message = Message(role="assistant", content=(block,))
    told = json.loads(message.model_dump_json())
    assert validator.is_valid(told)
    told["content"][0] = {"type": block.type, "text": 3, "message": 3, "url": 3, "call": 3}
    told["content"][0] |= {"call_id": 3}
    assert validator.is_valid(told) == isinstance(block, UnknownBlock | DataBlock)


def test_fuzzed_requests_are_answered_as_the_document_says() -> None:
    """Some seconds of it; `python -m tests.fuzz_server --minutes 5` goes on for longer."""
    seconds = float(os.environ.get("TENXGRAPH_TEST_FUZZ_SECONDS", "20"))
    seed = int(os.environ.get("TENXGRAPH_TEST_FUZZ_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    report = fuzz_server.fuzz(seconds, seed)
    print(report)
    assert report.failures == [], f"{report}\n{report.failures}"
    assert report.statuses[200] > 0
