"""Calls of an answer that was cut short: none is carried out that was not really sent."""

from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import config, on_durable, said

from tenxgraph.core.graph import tool
from tenxgraph.core.state import AgentState, ExecutionState, Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel

CUT = [
    "length",
    "content_filter",
    "max_tokens",
    "MAX_TOKENS",
    "FinishReason.SAFETY",
    "error",
    "abort",
    "model_length",
    "insufficient_system_resource",
    "a word of next year",
]
WHOLE = ["stop", "tool_calls", "STOP", "end_turn", "tool_use", "FinishReason.STOP", ""]


class Till:
    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int = 100) -> str:
        """Pay."""
        self.paid.append(amount)
        return "paid"


def asking(reason: str | None, *arguments: str, message_id: str = "asks") -> Message:
    calls = [
        ToolCall.from_arguments(id=f"c{number}", name="pay", arguments=one)
        for number, one in enumerate(arguments)
    ]
    answer = Message.assistant(tool_calls=calls, message_id=message_id)
    return answer.model_copy(update={"metadata": {"finish_reason": reason}})


async def told(till: Till, answer: Message) -> list[str]:
    model = ScriptedModel([answer, "done"])
    app = ReactAgent(model, [tool(till.pay)]).compile()
    result = await app.ainvoke("go", config())
    return [one.text() for one in result["messages"] if one.role == "tool"]


@pytest.mark.parametrize("arguments", ["", '{"amount": 5', "{", "null", "[]"])
@pytest.mark.parametrize("reason", CUT)
async def test_no_call_of_a_cut_answer_is_carried_out_without_whole_arguments(
    reason: str, arguments: str
) -> None:
    till = Till()
    (text,) = await told(till, asking(reason, arguments))
    assert till.paid == []
    assert text.startswith("This call of pay was not carried out: the answer was cut short")
    assert reason in text
    assert "Call it again with complete arguments, in a shorter answer." in text


@pytest.mark.parametrize("reason", CUT)
async def test_a_call_before_the_cut_that_is_whole_is_carried_out(reason: str) -> None:
    till = Till()
    texts = await told(till, asking(reason, '{"amount": 7}', ""))
    assert (till.paid, texts[0]) == ([7], "paid")
    assert "was not carried out" in texts[1]


@pytest.mark.parametrize("reason", WHOLE)
async def test_a_whole_answer_that_passes_nothing_means_the_defaults(reason: str | None) -> None:
    till = Till()
    assert await told(till, asking(reason, "", "{}")) == ["paid", "paid"]
    assert till.paid == [100, 100]


async def test_arguments_that_a_models_own_reader_has_mended_are_not_what_was_sent() -> None:
    till = Till()
    mended = ToolCall(id="c", name="pay", args={"amount": 1}, arguments='{"amount": 1')
    answer = Message.assistant(tool_calls=[mended])
    (text,) = await told(till, answer.model_copy(update={"metadata": {"finish_reason": "length"}}))
    assert till.paid == []
    assert "was not carried out" in text


async def test_a_function_as_a_model_may_say_that_its_answer_was_cut() -> None:
    till = Till()

    def model(messages: list[Message], _tools: Any) -> Any:
        return "done" if messages[-1].role == "tool" else asking("max_tokens", "")

    result = await ReactAgent(model, [tool(till.pay)]).compile().ainvoke("go", config())
    assert (till.paid, said(result["messages"])[-1]) == ([], "assistant: done")


@on_durable
async def test_a_thread_that_was_left_with_a_cut_answer_carries_nothing_out(
    backend: Backend,
) -> None:
    meta = ExecutionState(current_node="tools", status="running", step=1, run_id="r")
    context = [Message.text_message("go"), asking("length", "", '{"amount": 7}')]
    await backend.make().aput_state(config(), AgentState(context=context, execution_meta=meta))
    till, checkpointer = Till(), backend.make()
    app = ReactAgent(ScriptedModel(["done"]), [tool(till.pay)]).compile(checkpointer)
    await app.ainvoke(None, config())
    assert till.paid == [7]
    assert [one.position for one in await ledger_of(checkpointer)] == [1]


async def ledger_of(checkpointer: Checkpointer) -> list[Any]:
    return await checkpointer.alist_tool_results(config())


async def test_a_server_that_says_no_reason_may_have_cut_its_answer() -> None:
    till = Till()
    (text,) = await told(till, asking(None, ""))
    assert till.paid == []
    assert "no finish reason" in text
    assert await told(till, asking(None, '{"amount": 7}')) == ["paid"]
