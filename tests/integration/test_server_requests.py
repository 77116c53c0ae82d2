"""How requests reach the server: foreign pages, hosts, HEAD, ids in paths and answers, the docs."""

import asyncio
import logging
import re
from typing import Any
from urllib.parse import quote

import pytest
from graphs import chain
from serving import echo, events, serving

from tenxgraph.core.graph import interrupt
from tenxgraph.core.state import AgentState
from tenxgraph.server import create_app
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding

POSTS = [
    ("/v1/graph/invoke", b'{"messages": "hi"}'),
    ("/v1/graph/stream", b'{"messages": "hi"}'),
    ("/v1/graph/stop", b'{"thread_id": "t"}'),
    ("/v1/threads/t/fork", b"{}"),
    ("/v1/store/memories", b'{"content": "x"}'),
    ("/v1/store/search", b'{"query": "x"}'),
    ("/v1/store/forget", b"{}"),
]
# What a page of another origin may send without asking first (Fetch: CORS-safelisted).
FOREIGN: list[dict[str, str]] = [
    {},
    {"content-type": "text/plain"},
    {"content-type": "text/plain; application/json"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": "multipart/form-data; boundary=x"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_page_of_another_origin_cannot_change_anything(headers: dict[str, str]) -> None:
    store = InMemoryStore(HashEmbedding())
    async with serving(chain(echo, store=store)) as client:
        await client.post("/v1/store/memories", json={"content": "likes tea"})
        await client.put("/v1/threads/t", json={})
        for path, body in POSTS:
            for content in (body, b""):
                answer = await client.post(path, content=content, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (
                    415,
                    "unsupported_media_type",
                ), path
        (memory,) = (await client.get("/v1/store/memories")).json()["items"]
        assert memory["content"] == "likes tea"
        threads = (await client.get("/v1/threads")).json()["items"]
        assert [one["thread_id"] for one in threads] == ["t"]


async def test_every_post_of_the_document_is_tried_above() -> None:
    paths = create_app(chain(echo)).openapi()["paths"]
    posts = {path for path, methods in paths.items() if "post" in methods}
    assert posts == {path.replace("/t/", "/{thread_id}/") for path, _ in POSTS}


@pytest.mark.parametrize(
    ("host", "allowed", "status"),
    [
        ("evil.example", None, 400),
        ("evil.example:8000", None, 400),
        ("127.0.0.1.evil.example", None, 400),
        ("localhost.evil.example", None, 400),
        ("", None, 400),
        ("localhost", None, 200),
        ("LOCALHOST:8000", None, 200),
        ("127.0.0.1:1", None, 200),
        ("[::1]:8000", None, 200),
        ("chat.example.com", ["chat.example.com"], 200),
        ("Chat.Example.com:443", ["chat.example.com"], 200),
        ("localhost", ["chat.example.com"], 400),
        ("a.example.com", ["*.example.com"], 200),
        ("example.com", ["*.example.com"], 400),
        ("anexample.com", ["*.example.com"], 400),
        ("evil.example", ["*"], 200),
    ],
)
async def test_the_host_header_must_name_this_server(
    host: str, allowed: list[str] | None, status: int
) -> None:
    async with serving(chain(echo), allowed_hosts=allowed) as client:
        answer = await client.get("/ping", headers={"host": host})
        assert answer.status_code == status
        if status == 400:
            assert answer.json()["code"] == "bad_input"
            assert "`allowed_hosts`" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/ping", "/health/ready", "/v1/threads", "/openapi.json"])
async def test_head_is_answered_like_get_without_a_body(path: str) -> None:
    async with serving(chain(echo)) as client:
        got, answer = await client.get(path), await client.head(path)
        assert answer.status_code == got.status_code == 200
        assert answer.headers["content-length"] == got.headers["content-length"]
        assert answer.content == b""
        assert (await client.head("/v1/threads/nowhere")).status_code == 404
        assert (await client.head("/v1/graph/invoke")).status_code == 405


@pytest.mark.parametrize("message_id", ["a/b", "/a", "a/", "a//b", "ü/?#%", "a/b/messages/c"])
async def test_a_message_id_may_have_slashes(message_id: str) -> None:
    async with serving(chain(echo)) as client:
        for number in (1, 2):
            message = {"content": "hi", "message_id": message_id}
            body = {"messages": [message], "config": {"thread_id": f"t{number}"}}
            assert (await client.post("/v1/graph/invoke", json=body)).status_code == 200
            path = f"/v1/threads/t{number}/messages/{quote(message_id, safe='')}"
            assert (await client.get(path)).json()["message_id"] == message_id
            assert (await client.delete(path)).status_code == 204
            assert (await client.get(path)).status_code == 404


async def test_answers_and_errors_have_the_id_of_their_request() -> None:
    def node() -> None:
        raise RuntimeError("no")

    async with serving(chain(node)) as client:
        given = await client.get("/ping", headers={"x-request-id": "req-1"})
        assert given.headers["x-request-id"] == "req-1"
        for odd in ("a b", "x" * 129, "a\tb"):
            made = (await client.get("/ping", headers={"x-request-id": odd})).headers
            assert re.fullmatch("[0-9a-f]{32}", made["x-request-id"])
        config = {"thread_id": "t", "run_id": "r"}
        body = {"messages": "hi", "config": config}
        failed = await client.post("/v1/graph/invoke", json=body)
        assert failed.status_code == 500
        assert failed.json()["request_id"] == failed.headers["x-request-id"]
        assert {name: failed.json()[name] for name in config} == config


async def test_an_error_in_a_stream_has_the_ids_of_its_run_and_request() -> None:
    def node() -> None:
        raise RuntimeError("no")

    async with serving(chain(node)) as client:
        body = {"messages": "hi", "config": {"thread_id": "t", "run_id": "r"}}
        headers = {"x-request-id": "req-2"}
        async with client.stream("POST", "/v1/graph/stream", json=body, headers=headers) as answer:
            text = (await answer.aread()).decode()
        assert '"thread_id":"t"' in text.rpartition("event: error")[2]
        assert '"run_id":"r"' in text.rpartition("event: error")[2]
        assert '"request_id":"req-2"' in text.rpartition("event: error")[2]


async def test_a_stream_that_is_repeated_has_the_messages_of_its_run() -> None:
    ran: list[str] = []

    def first(state: AgentState) -> str:
        ran.append(state.context[-1].text())
        return "one"

    def second() -> str:
        return "two"

    async with serving(chain(first, second)) as client:
        body = {"messages": "hi", "config": {"thread_id": "t", "run_id": "r"}}
        invoked = None
        for _ in range(3):
            async with events(client, **body) as heard:
                told = [event async for event in heard]
            messages = [data["message"] for name, data in told if name == "message"]
            assert [one["content"][0]["text"] for one in messages] == ["one", "two"]
            assert (told[0][0], told[-1][0]) == ("start", "end")
            assert told[-1][1]["status"] == "completed"
            invoked = (await client.post("/v1/graph/invoke", json=body)).json()
            assert invoked["messages"] == messages
    assert ran == ["hi"]


async def test_a_stream_that_is_repeated_at_a_pause_asks_again() -> None:
    def ask() -> str:
        return str(interrupt({"sure": True}))

    async with serving(chain(echo, ask)) as client:
        body = {"messages": "hi", "config": {"thread_id": "t", "run_id": "r"}}
        seen = []
        for _ in range(2):
            async with events(client, **body) as heard:
                told = [event async for event in heard if event[0] in ("message", "interrupt")]
            assert [name for name, _ in told] == ["message", "interrupt"]
            seen.append([data.get("interrupts") for _, data in told])
        assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("part", "remedy"),
    [
        ({"type": "input_text", "text": "hi"}, '{"type": "text"'),
        ({"type": "output_text", "text": "hi"}, '{"type": "text"'),
        ({"type": "input_image", "image_url": "https://example.com/a.png"}, '"image_url"'),
        ({"type": "input_file", "file_id": "f"}, '"file"'),
    ],
)
async def test_a_part_of_the_responses_api_is_refused_with_the_remedy(
    part: dict[str, str], remedy: str
) -> None:
    async with serving(chain(echo)) as client:
        messages = [{"content": "x"}, {"content": [{"type": "text", "text": "x"}, part]}]
        answer = await client.post("/v1/graph/invoke", json={"messages": messages})
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith("body.messages.1.content.1: ")
        assert remedy in answer.json()["detail"]


async def test_the_docs_need_nothing_from_elsewhere() -> None:
    app = create_app(chain(echo))
    async with serving(app) as client:
        page = await client.get("/docs")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(addresses) == 2
        for address in addresses:
            assert address.startswith("/docs/"), "no other host"
            file = await client.get(address)
            assert file.status_code == 200
            assert len(file.content) > 10_000
        assert (await client.get("/docs/other.js")).status_code == 404
        assert (await client.get("/docs/..%2Fcore.py")).status_code == 404


async def test_the_access_log_has_ids_and_no_query_string(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tenxgraph.access")
    async with serving(chain(echo)) as client:
        await client.get("/v1/threads?search=secret")
        await client.get("/v1/threads/a%0Ab")
    lines = [record.getMessage() for record in caplog.records if record.name == "tenxgraph.access"]
    assert lines[0].startswith("GET /v1/threads 200 ")
    assert lines[1].startswith("GET /v1/threads/a%0Ab 404 "), "no line break is forged"
    assert "secret" not in caplog.text


async def test_runs_that_were_refused_or_left_give_their_slots_back() -> None:
    begun = asyncio.Event()

    async def node() -> str:
        begun.set()
        await asyncio.sleep(60)
        return "done"

    app = create_app(chain(node))
    slots: Any = app.state.deployment.slots
    async with serving(app) as client:
        await client.post("/v1/graph/invoke", json={"resume": "nobody asked"})
        async with events(client, messages="hi") as heard:
            assert (await anext(heard))[0] == "start"
            await begun.wait()
            assert slots._taken.total() == 1
        async with asyncio.timeout(10):
            while slots._taken.total():  # noqa: ASYNC110 - the run ends in its own time
                await asyncio.sleep(0.02)
