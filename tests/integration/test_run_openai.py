"""An agent through the official client, to a server that speaks its protocol."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from graphs import config, said
from pydantic import BaseModel

from tenxgraph.core.exceptions import GraphError, NodeError, RefusalError
from tenxgraph.core.graph import Agent, CompiledGraph, ToolNode
from tenxgraph.core.state import AgentState, Message, TokenUsages
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import (
    OpenAIServer,
    ServerError,
    VerbatimAnswer,
    VerbatimStream,
    broken_rules,
)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The one.
        b: The other.
    """
    return a + b


def react(server: OpenAIServer, *tools: Any, **options: Any) -> CompiledGraph[Any]:
    options = {"base_url": server.base_url, "api_key": "test", "max_retries": 0, **options}
    return ReactAgent("gpt-4o-mini", list(tools), **options).compile()


ADD = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_tool_is_called_and_its_result_answered(server: OpenAIServer, stream: bool) -> None:
    server.add_answers(ADD, "It is 3.")
    async with react(server, add, system_prompt="Be exact.", stream=stream) as app:
        chunks = [chunk async for chunk in app.astream("1 + 2?", config())]
        state = await app.aget_state(config())
    assert state is not None
    assert said(state) == ["user: 1 + 2?", "assistant: ", "tool: 3", "assistant: It is 3."]
    words = [chunk.text for chunk in chunks if chunk.type == "token"]
    assert words == (["It ", "is ", "3."] if stream else ["It is 3."])
    first, second = (request.body for request in server.requests)
    assert first["messages"] == [
        {"role": "system", "content": "Be exact."},
        {"role": "user", "content": "1 + 2?"},
    ]
    assert first["tools"][0]["function"]["parameters"]["required"] == ["a"]
    assert [one["role"] for one in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert broken_rules(second["messages"]) == []


@pytest.mark.parametrize("stream", [True, False])
async def test_what_a_call_cost_is_kept_on_its_message(server: OpenAIServer, stream: bool) -> None:
    server.add_answers(ADD, "3")
    async with react(server, add, stream=stream) as app:
        result = await app.ainvoke("1 + 2?", config())
    answers = [message for message in result["messages"] if message.role == "assistant"]
    assert all(message.usages and message.usages.total_tokens > 0 for message in answers)
    total = sum((message.usages or TokenUsages() for message in answers), start=TokenUsages())
    assert result["usage"] == total
    assert [message.metadata["finish_reason"] for message in answers] == ["tool_calls", "stop"]


async def test_options_go_into_the_request_and_the_client(server: OpenAIServer) -> None:
    server.add_answers("x")
    async with react(server, temperature=0.5, default_headers={"x-team": "memory"}) as app:
        await app.ainvoke("hi", config())
    (request,) = server.requests
    assert request.body["temperature"] == 0.5
    assert request.headers["x-team"] == "memory"


async def test_the_servers_address_comes_from_the_environment(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    server.add_answers("hello")
    async with ReactAgent("gpt-4o-mini").compile() as app:
        assert (await app.ainvoke("hi", config()))["messages"][-1].text() == "hello"


async def test_a_service_that_refuses_fails_the_run_which_goes_on_later(
    server: OpenAIServer,
) -> None:
    server.add_answers(ServerError(429, "slow down"), "hello")
    async with react(server) as app:
        with pytest.raises(NodeError, match="RateLimitError"):
            await app.ainvoke("hi", config())
        result = await app.ainvoke(None, config())
    assert said(result["state"]) == ["user: hi", "assistant: hello"]


async def test_the_client_retries_by_itself(server: OpenAIServer) -> None:
    server.add_answers(ServerError(500, "oops", {"retry-after-ms": "1"}), "hello")
    async with react(server, max_retries=1) as app:
        assert (await app.ainvoke("hi", config()))["messages"][-1].text() == "hello"


class Answer(BaseModel):
    number: int
    why: str = ""


@dataclass
class Plain:
    number: int


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (Answer, True),
        (Plain, True),
        (dict[str, int], False),
        ({"type": "object", "properties": {"number": {"type": "integer"}}}, True),
    ],
)
async def test_an_answer_has_the_form_that_was_asked_for(
    server: OpenAIServer, schema: Any, strict: bool
) -> None:
    server.add_answers(ADD, '{"number": 3}')
    async with react(server, add, output_schema=schema) as app:
        result = await app.ainvoke("1 + 2?", config())
    assert json.loads(result["messages"][-1].text()) == {"number": 3}
    told = server.requests[0].body["response_format"]["json_schema"]
    assert told["strict"] is strict
    if strict:
        assert told["schema"]["additionalProperties"] is False
        assert told["schema"]["required"] == list(told["schema"]["properties"])


async def test_an_answer_of_another_form_fails_the_node(server: OpenAIServer) -> None:
    server.add_answers('{"number": "three"}', '{"number": 3}')
    async with react(server, output_schema=Answer) as app:
        with pytest.raises(GraphError, match=r"no Answer: number: Input should be.*three"):
            await app.ainvoke("1 + 2?", config())
        assert (await app.ainvoke(None, config()))["messages"][-1].text() == '{"number": 3}'
    with pytest.raises(GraphError, match="cannot be told"):
        react(server, output_schema=OpenAIServer)


@pytest.mark.parametrize("stream", [True, False])
async def test_refusal_of_the_model_is_told_as_a_refusal(
    server: OpenAIServer, stream: bool
) -> None:
    choice = {"index": 0, "finish_reason": "stop"}
    said = {"role": "assistant", "content": None, "refusal": "I cannot."}
    if stream:
        server.add_answers(VerbatimStream([{"choices": [choice | {"delta": said}]}]))
    else:
        server.add_answers(VerbatimAnswer({"choices": [choice | {"message": said}]}))
    async with react(server, output_schema=Answer, stream=stream) as app:
        with pytest.raises(NodeError, match=r"RefusalError: .*refused to answer: I cannot\.") as e:
            await app.ainvoke("1 + 2?", config())
    assert isinstance(e.value.__cause__, RefusalError)
    assert e.value.__cause__.refusal == "I cannot."


@pytest.mark.parametrize("stream", [False, True])
async def test_refusal_in_a_part_of_the_content_is_a_refusal(
    server: OpenAIServer, stream: bool
) -> None:
    said = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]}
    choice = {"index": 0, "finish_reason": "stop", "delta" if stream else "message": said}
    answer = {"choices": [choice]}
    server.add_answers(VerbatimStream([answer]) if stream else VerbatimAnswer(answer))
    async with react(server, output_schema=Answer, stream=stream) as app:
        with pytest.raises(NodeError, match=r"RefusalError: .*refused to answer: I cannot\."):
            await app.ainvoke("1 + 2?", config())


async def test_list_is_asked_for_as_an_object_and_answered_as_a_list(server: OpenAIServer) -> None:
    server.add_answers('{"answer": [1, 2]}')
    async with react(server, output_schema=list[int]) as app:
        result = await app.ainvoke("numbers?", config())
    assert result["messages"][-1].text() == "[1, 2]"
    told = server.requests[0].body["response_format"]["json_schema"]
    assert (told["strict"], told["schema"]["type"]) == (True, "object")


async def test_arguments_that_are_no_json_are_answered_and_the_thread_goes_on(
    server: OpenAIServer,
) -> None:
    server.add_answers({"tool_calls": [{"name": "add", "arguments": '{"a": '}]}, "sorry")
    async with react(server, add) as app:
        result = await app.ainvoke("1 + 2?", config())
    assert said(result["messages"])[1].startswith("tool: The arguments of add are no JSON object")
    assert broken_rules(server.requests[1].body["messages"]) == []


async def test_a_system_prompt_may_be_a_list_of_anything(server: OpenAIServer) -> None:
    server.add_answers("x")
    prompt = [
        "One.",
        {"role": "system", "content": "Two."},
        Message.text_message("Three.", role="system"),
    ]
    async with react(server, system_prompt=prompt) as app:
        state = (await app.ainvoke("hi", config()))["state"]
    sent = server.requests[0].body["messages"]
    assert [one["content"] for one in sent] == ["One.\n\nTwo.\n\nThree.", "hi"]
    assert said(state) == ["user: hi", "assistant: x"], "the prompt is not part of the thread"


async def test_an_agent_and_its_tools_by_hand(server: OpenAIServer) -> None:
    server.add_answers(ADD)
    tools = ToolNode([add])
    agent = Agent("gpt-4o-mini", tools, base_url=server.base_url, api_key="test")
    async with react(server) as app:
        state = AgentState(context=[Message.text_message("1 + 2?")])
        await app.checkpointer.aput_state(config(), state)
        answer = await agent(state, config())
        state.context = [*state.context, answer]
        (result,) = await tools(state, config(), app.checkpointer)
    assert result.text() == "3"
    await agent.aclose()


def test_a_graph_may_be_used_in_one_loop_after_the_other(server: OpenAIServer) -> None:
    server.add_answers("1", "2")
    app = react(server)
    assert [app.invoke("hi", config())["messages"][-1].text() for _ in range(2)] == ["1", "2"]
    app.close()
