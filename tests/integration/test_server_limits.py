"""What a request may hold: limits, JSON that is refused, and answers that stay 4xx problems."""

import asyncio
import json
from typing import Any

import pytest
from backends import Backend
from graphs import chain, on_durable
from serving import echo, serving

from tenxgraph.core.state import Message
from tenxgraph.server import RequestLimits, RunLimits
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding

JSON = {"content-type": "application/json"}
SMALL = RequestLimits(max_messages=3, max_parts=4, max_values=100, max_depth=6)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What messages are built from."""
    made: list[Any] = []
    from_openai: Any = Message.from_openai

    def counted(message: Any, **options: Any) -> Message:
        made.append(message)
        built: Message = from_openai(message, **options)
        return built

    monkeypatch.setattr(Message, "from_openai", counted)
    return made


def _text(text: str = "x") -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("body", "setting"),
    [
        ({"messages": ["x"] * 4}, "max_messages"),
        ({"messages": [{"content": "x"}] * 4}, "max_messages"),
        ({"messages": [{"content": [_text()] * 5}]}, "max_parts"),
        ({"messages": [{"content": [_text()] * 3}, {"content": [_text()] * 2}]}, "max_parts"),
        ({"state": {"count": [0] * 101}}, "max_values"),
        ({"config": {"values": {str(number): 0 for number in range(101)}}}, "max_values"),
        ({"resume": [[[[[[[0]]]]]]]}, "max_depth"),
    ],
)
async def test_a_request_over_a_limit_is_refused_before_a_message_is_built(
    body: dict[str, Any], setting: str, built: list[Any]
) -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    graph = chain(echo, checkpointer=checkpointer)
    async with serving(graph, request_limits=SMALL) as client:
        for path in ("invoke", "stream"):
            answer = await client.post(f"/v1/graph/{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
            assert f"request_limits.{setting}" in answer.json()["detail"]
            assert str(getattr(SMALL, setting)) in answer.json()["detail"]
    assert built == []
    assert await checkpointer.alist_threads({"user_id": "anonymous"}) == []


async def test_a_request_at_the_limits_is_answered(built: list[Any]) -> None:
    messages = [{"content": [_text()] * 2}, {"content": [_text()] * 2}, "x"]
    async with serving(chain(echo), request_limits=SMALL) as client:
        answer = await client.post("/v1/graph/invoke", json={"messages": messages})
        assert answer.status_code == 200, answer.text
    assert len(built) == 3


async def test_two_hundred_thousand_messages_are_refused_by_default(built: list[Any]) -> None:
    body = json.dumps({"messages": ["x"] * 200_000}, separators=(",", ":"))
    async with serving(chain(echo)) as client:
        answer = await client.post("/v1/graph/invoke", content=body, headers=JSON)
        assert answer.status_code == 422
        assert "has 200000 messages" in answer.json()["detail"]
    assert built == []


@on_durable
async def test_a_thousand_named_messages_are_looked_up_together(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = backend.make()
    looked_up: list[int] = []
    aget_messages = checkpointer.aget_messages

    async def counted(config: Any, ids: Any) -> Any:
        looked_up.append(len(ids))
        return await aget_messages(config, ids)

    async def refused(*_: Any) -> Any:
        raise AssertionError("one by one")

    monkeypatch.setattr(checkpointer, "aget_messages", counted)
    monkeypatch.setattr(checkpointer, "aget_message", refused)
    messages = [{"content": "x", "message_id": f"m{number}"} for number in range(1000)]
    async with serving(chain(echo, checkpointer=checkpointer)) as client:
        body = {"messages": messages, "config": {"thread_id": "t"}}
        answer = await client.post("/v1/graph/invoke", json=body)
        assert answer.status_code == 200, answer.text
        page = (await client.get("/v1/threads/t/messages?limit=1000")).json()
        assert [one["message_id"] for one in page["items"]] == [f"m{n}" for n in range(1000)]
    assert looked_up == [1000]


LONG = "x" * 300

BODIES: list[tuple[str, bytes]] = [
    ("invalid UTF-8", b'{"messages": "\xff\xfe"}'),
    ("UTF-16", '{"messages": "hi"}'.encode("utf-16")),
    ("half a surrogate", b'{"config": {"thread_id": "\\ud83d"}}'),
    ("duplicate key", b'{"messages": "a", "messages": "b"}'),
    ("duplicate key inside", b'{"state": {"a": 1, "a": 2}}'),
    ("NaN", b'{"state": {"count": NaN}}'),
    ("Infinity", b'{"state": {"count": -Infinity}}'),
    ("integer of 401 digits", b'{"state": {"count": 1' + b"0" * 400 + b"}}"),
    ("integer of 5001 digits", b'{"resume": 1' + b"0" * 5000 + b"}"),
    ("float over the range", b'{"config": {"node_timeout": 1e999}}'),
    ("large recursion limit", b'{"config": {"recursion_limit": 1.5}}'),
    ("1 MB of [", b"[" * 1_000_000),
    ("1 MB of {", b'{"a":' * 200_000),
    ("deep but closed", b'{"resume": ' + b"[" * 60 + b"]" * 60 + b"}"),
    ("cut off", b'{"messages": "hi'),
    ("empty", b""),
    ("null", b"null"),
    ("list", b"[]"),
    ("text", b'"hi"'),
    ("NUL in an id", b'{"config": {"thread_id": "a\\u0000b"}}'),
    ("long thread id", json.dumps({"config": {"thread_id": LONG}}).encode()),
    ("long run id", json.dumps({"config": {"run_id": LONG}}).encode()),
    ("long message id", json.dumps({"messages": [{"content": "x", "message_id": LONG}]}).encode()),
    ("dots as message id", b'{"messages": [{"content": "x", "message_id": ".."}]}'),
    ("part without a type", b'{"messages": [{"content": [{}]}]}'),
    ("part with a type that is a list", b'{"messages": [{"content": [{"type": []}]}]}'),
    ("image without a url", b'{"messages": [{"content": [{"type": "image_url"}]}]}'),
    (
        "image with a number",
        b'{"messages": [{"content": [{"type": "image_url", "image_url": {"url": 1}}]}]}',
    ),
    (
        "sound that is no base64",
        b'{"messages": [{"content": [{"type": "input_audio", "input_audio": '
        b'{"data": "a!c=", "format": "wav"}}]}]}',
    ),
    ("file with a number", b'{"messages": [{"content": [{"type": "file", "file": 3}]}]}'),
]


@pytest.mark.parametrize("body", [row[1] for row in BODIES], ids=[row[0] for row in BODIES])
async def test_a_malformed_body_is_a_problem_of_the_client(body: bytes) -> None:
    async with serving(chain(echo)) as client:
        for path in ("invoke", "stream"):
            answer = await client.post(f"/v1/graph/{path}", content=body, headers=JSON)
            assert answer.status_code in (400, 413, 422), answer.text
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] in ("bad_input", "too_large")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/threads/t/fork", {"version": 10**300}),
        ("POST", "/v1/threads/t/fork", {"thread_id": LONG}),
        ("PUT", f"/v1/threads/{LONG}", {}),
        ("PUT", "/v1/threads/t", {"metadata": {"a": "half \ud83d"}}),
        ("GET", f"/v1/threads/{LONG}", None),
        ("GET", f"/v1/threads/t/state?version={10**300}", None),
        ("GET", f"/v1/threads?metadata={'[' * 10_000}", None),
        ("GET", f'/v1/threads?metadata={{"a":{10**300}}}', None),
        ("GET", '/v1/threads?metadata={"a":NaN}', None),
        ("GET", "/v1/threads?search=%00", None),
        ("GET", f"/v1/threads/t/messages/{LONG}", None),
        ("GET", "/v1/threads/t/messages/a%00b", None),
        ("GET", "/v1/threads/t/messages?search=%00", None),
        ("GET", "/v1/threads/t/messages?cursor=%F0%28", None),
        ("GET", f"/v1/store/memories/{LONG}", None),
        ("GET", "/v1/store/memories?cursor=%00", None),
        ("POST", "/v1/store/search", {"query": "x", "limit": 10**300}),
        ("POST", "/v1/store/search", {"query": "x", "score_threshold": 10**300}),
        ("POST", "/v1/store/search", {"query": "x", "filters": {"a": 10**300}}),
        ("POST", "/v1/store/memories", {"content": "x", "metadata": {"a": 10**300}}),
        ("POST", "/v1/store/memories", {"content": "x", "category": "a\x00b"}),
        ("POST", "/v1/store/memories", {"content": "x", "memory_type": "nowhere"}),
    ],
)
@on_durable
async def test_odd_values_are_never_an_error_of_the_server(
    backend: Backend, method: str, path: str, body: Any
) -> None:
    store = InMemoryStore(HashEmbedding())
    async with serving(chain(echo, checkpointer=backend.make(), store=store)) as client:
        content = None if body is None else json.dumps(body)
        await client.put("/v1/threads/t", json={})
        answer = await client.request(method, path, content=content, headers=JSON)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"


async def test_a_user_and_a_process_have_a_number_of_runs_at_most() -> None:
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def node() -> str:
        begun.release()
        await go_on.wait()
        return "done"

    limits = RunLimits(max_runs=3, max_runs_per_user=2)
    user = lambda request: request.headers["x-user"]  # noqa: E731
    async with serving(chain(node), auth=user, limits=limits) as client:

        def run(name: str, path: str = "invoke") -> Any:
            headers = {"x-user": name}
            return client.post(f"/v1/graph/{path}", json={"messages": "hi"}, headers=headers)

        going_on = [
            asyncio.create_task(run(name, path))
            for name, path in (("alice", "invoke"), ("alice", "stream"), ("bob", "invoke"))
        ]
        for _ in going_on:
            await begun.acquire()
        for name, words in (("alice", "You have 2 runs"), ("bob", "The server has 3 runs")):
            refused = await run(name)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_runs")
            assert refused.headers["retry-after"] == "1"
            assert words in refused.json()["detail"]
        go_on.set()
        for answer in await asyncio.gather(*going_on):
            assert answer.status_code == 200
        # All slots are free again.
        for _ in range(4):
            assert (await run("alice")).status_code == 200
