"""The scripted model, and the rules that it holds every conversation against."""

import asyncio
from typing import Any

import pytest

from tenxgraph.core.state import Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel, broken_rules

HI = Message.text_message("hi")
CALL = ToolCall(id="a", name="f")


async def ask(model: ScriptedModel, *messages: Message) -> tuple[Message, list[str]]:
    words: list[str] = []
    return await model.answer(messages or (HI,), [], words.append), words


async def test_it_says_what_the_script_says_a_word_at_a_time() -> None:
    model = ScriptedModel(["two words", Message.assistant("a message"), CALL, [CALL, CALL]])
    answer, words = await ask(model)
    assert (answer.text(), words) == ("two words", ["two ", "words"])
    assert (await ask(model))[0].text() == "a message"
    assert [len((await ask(model))[0].tool_calls) for _ in range(2)] == [1, 2]
    model.add_answers(lambda messages, tools: f"{len(messages)} messages", KeyError("no"))
    assert (await ask(model, HI, HI))[0].text() == "2 messages"
    with pytest.raises(KeyError):
        await ask(model)
    with pytest.raises(AssertionError, match="no more answers"):
        await ask(model)
    assert len(model.requests) == 7


async def test_it_refuses_what_a_provider_would_refuse() -> None:
    model = ScriptedModel(lambda messages, tools: "ok")
    with pytest.raises(AssertionError, match="call 'a' has no result"):
        await ask(model, HI, Message.assistant(tool_calls=[CALL]))
    assert (await ask(model))[0].text() == "ok"


def calls(*ids: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": one, "function": function} for one in ids]}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "there are no messages"),
        ([USER, result("a")], "message 1 is a result without a call"),
        ([USER, calls("a")], "call 'a' has no result"),
        ([USER, calls("a"), USER, result("a")], "call 'a' has no result right after it"),
        ([USER, calls("a"), result("a"), result("a")], "message 3 is a result without a call"),
        ([USER, calls(""), result("")], "has a call with the id ''"),
        ([USER, calls("a", "a"), result("a"), result("a")], "has a call with the id 'a'"),
        ([USER, calls("a"), result("a"), calls("a"), result("a")], "with the id 'a'"),
        ([USER, calls("a", name="a b"), result("a")], "message 1 calls 'a b'"),
        ([USER, calls("a", arguments="[]"), result("a")], "are no JSON object"),
        ([USER, calls("a", arguments="{"), result("a")], "are no JSON object"),
        ([USER, {"role": "assistant", "content": ""}], "message 1 is an empty answer"),
    ],
)
def test_each_rule_can_be_broken(messages: list[dict[str, Any]], problem: str) -> None:
    assert problem in "; ".join(broken_rules(messages))


def test_what_is_whole_breaks_none() -> None:
    assert broken_rules([USER, calls("a", "b"), result("b"), result("a"), USER]) == []


async def test_a_function_may_be_async_and_answer_with_bare_tool_calls() -> None:
    asked = ToolCall(id="c", name="nothing", args={})

    async def model(messages: list[Message], tools: list[Any]) -> Any:
        await asyncio.sleep(0)
        return "Done." if messages[-1].role == "tool" else [asked]

    for given in (model, ScriptedModel(model)):
        result = await ReactAgent(given).compile().ainvoke("hi", {"thread_id": "t"})
        told = [one.text() for one in result["messages"]]
        assert told == ["", "There is no tool 'nothing'. There are: none.", "Done."]
