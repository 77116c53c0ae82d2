"""The server for tests, used through the official client."""

import json
from collections.abc import Iterator

import openai
import pytest

from tenxgraph.testing import OpenAIServer, ServerError

MESSAGES = [{"role": "user", "content": "Hi"}]
CALLS = {
    "content": "Let me look.",
    "tool_calls": [
        {"name": "search", "arguments": {"query": "tea"}, "id": "call_a"},
        {"name": "broken", "arguments": "{not json"},
    ],
}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def client(server: OpenAIServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=1) as client:
        yield client


def ask(client: openai.OpenAI, **options: object) -> object:
    return client.chat.completions.create(model="m", messages=MESSAGES, **options)  # type: ignore[call-overload]


def test_answers_come_in_order_and_requests_are_recorded(
    server: OpenAIServer, client: openai.OpenAI
) -> None:
    server.add_answers("One.", "Two.")
    replies = [ask(client, temperature=0), ask(client)]
    assert [reply.choices[0].message.content for reply in replies] == ["One.", "Two."]  # type: ignore[attr-defined]
    assert replies[0].usage.total_tokens > 0  # type: ignore[attr-defined]
    first, second = server.requests_to("/v1/chat/completions")
    assert first.body == {"model": "m", "messages": MESSAGES, "temperature": 0}
    assert "temperature" not in second.body


def test_tool_calls_are_answered_as_they_were_written(
    server: OpenAIServer, client: openai.OpenAI
) -> None:
    server.add_answers(CALLS)
    choice = ask(client).choices[0]  # type: ignore[attr-defined]
    assert choice.finish_reason == "tool_calls"
    first, second = choice.message.tool_calls
    assert (first.id, first.function.name) == ("call_a", "search")
    assert json.loads(first.function.arguments) == {"query": "tea"}
    assert second.id
    assert second.function.arguments == "{not json"


def test_a_stream_says_the_same(server: OpenAIServer, client: openai.OpenAI) -> None:
    server.add_answers(CALLS)
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))  # type: ignore[call-overload]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Let me look."
    assert len([delta for delta in deltas if delta.content]) == 3
    arguments = {0: "", 1: ""}
    for delta in deltas:
        for call in delta.tool_calls or ():
            arguments[call.index] += call.function.arguments
    assert arguments == {0: '{"query": "tea"}', 1: "{not json"}
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage.total_tokens > 0


def test_an_answer_can_depend_on_the_request(server: OpenAIServer, client: openai.OpenAI) -> None:
    server.add_answers(lambda body: body["messages"][-1]["content"].upper())
    assert ask(client).choices[0].message.content == "HI"  # type: ignore[attr-defined]


def test_errors_are_what_the_client_knows(server: OpenAIServer, client: openai.OpenAI) -> None:
    server.add_answers(
        ServerError(429, "slow down", {"retry-after-ms": "5"}), "ok", ServerError(401, "who?")
    )
    assert ask(client).choices[0].message.content == "ok"  # type: ignore[attr-defined]
    with pytest.raises(openai.AuthenticationError, match=r"who\?"):
        ask(client)


def test_a_script_that_is_over_says_so(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="no more answers"):
        ask(client)


def test_embeddings_refuse_what_the_real_endpoint_refuses(client: openai.OpenAI) -> None:
    for texts in (["fine", ""], ["x"] * 2049, []):
        with pytest.raises(openai.BadRequestError, match=r"\$\.input"):
            client.embeddings.create(model="m", input=texts)
    for encoding in ("float", "base64"):
        made = client.embeddings.create(model="m", input="x", encoding_format=encoding)
        assert made.data[0].embedding


def test_an_unknown_path_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="/v1/responses"):
        client.responses.create(model="m", input="x")


def test_a_server_that_does_not_run_has_no_address() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = OpenAIServer().base_url
