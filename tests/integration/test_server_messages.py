"""Content parts over HTTP: what is malformed is refused, and what is unknown is kept."""

from typing import Any

import pytest
from backends import Backend
from graphs import chain, on_durable, said
from serving import echo, serving

from tenxgraph.core.state import Message

ANONYMOUS = {"user_id": "anonymous"}

UNKNOWN: list[dict[str, Any]] = [
    {"type": "error"},
    {"type": "error", "message": 5},
    {"type": "tool_call"},
    {"type": "reasoning", "text": None},
    {"type": "data", "data": [1]},
    {"type": "tool_result", "call_id": 7},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
    {"type": "audio", "data": "no base64"},
    {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
    {"type": "unknown", "raw": {"a": 1}},
    {"type": "hologram", "depth": 3},
]

MALFORMED: dict[str, Any] = {
    "content[0].text": {"type": "text"},
    "content[0].text ": {"type": "text", "text": None},
    "content[0].image_url": {"type": "image_url"},
    "content[0].image_url ": {"type": "image_url", "image_url": None},
    "content[0].image_url.url": {"type": "image_url", "image_url": {"detail": "low"}},
    "content[0].image_url.url ": {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,no base64!"},
    },
    "content[0].input_audio": {"type": "input_audio", "input_audio": "QQ=="},
    "content[0].input_audio.data": {"type": "input_audio", "input_audio": {"format": "wav"}},
    "content[0].file": {"type": "file", "file": []},
    "content[0].file.file_data": {"type": "file", "file": {"file_data": 5}},
    "content[0].type": {"text": "hi"},
    "content[0].type ": {"type": None},
}


@on_durable
async def test_a_part_that_is_unknown_is_kept_and_the_thread_goes_on(backend: Backend) -> None:
    sent: list[Message] = []

    def listen(state: Any) -> str:
        sent[:] = state.context
        return "ok"

    app = chain(listen, checkpointer=backend.make())
    async with serving(app) as client:
        for place, part in enumerate(UNKNOWN):
            path = f"/v1/threads/t{place}"
            content = [{"type": "text", "text": "look", "cache_control": {}}, part]
            body = {"messages": [{"content": content}], "config": {"thread_id": f"t{place}"}}
            for _ in range(2):
                answer = await client.post("/v1/graph/invoke", json=body)
                assert answer.status_code == 200, (part, answer.text)
                assert sent[-1].to_openai() == {"role": "user", "content": content}
            for of in (f"{path}/state", f"{path}/messages", f"{path}/states"):
                answer = await client.get(of)
                assert answer.status_code == 200, (part, answer.text)
            fork = await client.post(f"{path}/fork", json={"thread_id": f"f{place}"})
            assert fork.status_code == 201
            assert (await client.delete(path)).status_code == 204
        kept = await backend.make().aget_state({**ANONYMOUS, "thread_id": "f0"})
        assert said(kept) == ["user: look", "assistant: ok"] * 2


@pytest.mark.parametrize(("place", "part"), MALFORMED.items())
async def test_a_part_that_is_malformed_is_refused_by_name(place: str, part: Any) -> None:
    async with serving(chain(echo)) as client:
        for more in ({}, {"message_id": "m"}):
            body = {
                "messages": ["hi", {"content": [part], **more}],
                "config": {"thread_id": "t"},
            }
            answer = await client.post("/v1/graph/invoke", json=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
            assert f"`{place.strip()}`" in answer.json()["detail"]
        assert (await client.get("/v1/threads/t")).status_code == 404, "nothing is written"


async def test_what_the_provider_sent_with_a_call_is_no_clients_to_see() -> None:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"signature": "HEADER"},
    }

    def node() -> list[Message]:
        asked = {"role": "assistant", "content": "hi", "tool_calls": [call], "private": "HEADER"}
        return [Message.from_openai(asked)]

    async with serving(chain(node)) as client:
        body = {"messages": "hi", "config": {"thread_id": "t"}}
        answer = await client.post("/v1/graph/invoke", json=body)
        assert answer.json()["messages"][0]["tool_calls"][0]["name"] == "f"
        for told in (answer, await client.get("/v1/threads/t/state")):
            assert told.status_code == 200
            assert "HEADER" not in told.text
