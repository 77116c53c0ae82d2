"""The ledger: a call that has finished never runs again, and one whose end is unknown is told."""

import asyncio
import contextlib
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import Writes, also_behind_redis, config, said
from threads import present

from tenxgraph.core.exceptions import NodeError, StaleStateError
from tenxgraph.core.graph import CompiledGraph, interrupt, tool
from tenxgraph.core.graph.calls import last_turn
from tenxgraph.core.graph.repair import sendable
from tenxgraph.core.graph.settle import NOT_CARRIED_OUT
from tenxgraph.core.graph.tool_run import UNKNOWN
from tenxgraph.core.state import AgentState, Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel, broken_rules

pytestmark = also_behind_redis


class CrashError(BaseException):
    """The process dies."""


def call(name: str, call_id: str = "c", /, **args: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, args=args)


class Tools:
    """Tools with effects that are counted, and ways to die."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.dying = True

    def mail(self, to: str = "a") -> str:
        self.effects["mail"] += 1
        return f"mailed {to}"

    def log(self) -> str:
        self.effects["log"] += 1
        return "logged"

    def fail_once(self) -> str:
        self.effects["fail_once"] += 1
        if self.effects["fail_once"] == 1:
            raise RuntimeError("not yet")
        return "at last"

    def approve(self) -> str:
        return f"approved: {interrupt('may I?')}"

    async def pay(self) -> str:
        self.effects["pay"] += 1
        if self.dying:
            self.dying = False
            raise CrashError
        return "paid"


async def rows(checkpointer: Checkpointer) -> dict[str, str]:
    found = await checkpointer.alist_tool_results(config())
    return {f"{one.tool_name}:{one.position}": one.status for one in found}


async def crash(app: CompiledGraph[Any], *, at_write: int | None = None) -> None:
    """Run until the process dies: in a tool, or instead of the durable write of that number."""
    if at_write is not None:
        writes = Writes(app.checkpointer)

        def die(_state: AgentState) -> None:
            if len(writes.states) >= at_write:
                raise CrashError

        writes.before = die
    with pytest.raises(CrashError):
        await app.ainvoke("go", config())


async def test_a_crash_after_the_tools_repeats_none_of_them(backend: Backend) -> None:
    tools = Tools()
    calls = [call("mail", "same", to="a"), call("mail", "same", to="b"), call("log", "")]
    model = ScriptedModel([calls, "done"])
    # The third write, of what the tools returned, never comes.
    await crash(ReactAgent(model, [tools.mail, tools.log]).compile(backend.make()), at_write=2)
    assert await rows(backend.make()) == {
        "mail:0": "finished",
        "mail:1": "finished",
        "log:2": "finished",
    }
    app = ReactAgent(model, [tools.mail, tools.log]).compile(backend.make())
    result = await app.ainvoke(None, config())
    assert tools.effects == {"mail": 2, "log": 1}
    assert said(result["messages"]) == [
        "tool: mailed a",
        "tool: mailed b",
        "tool: logged",
        "assistant: done",
    ]


async def test_a_streamed_run_keeps_the_same_ledger(backend: Backend) -> None:
    tools = Tools()

    def script(messages: list[Message], _tools: Any) -> Any:
        return "done" if messages[-1].role == "tool" else call("mail")

    model = ScriptedModel(script)
    app = ReactAgent(model, [tools.mail]).compile(backend.make())
    async with contextlib.aclosing(app.astream("go", config())) as chunks:
        async for chunk in chunks:
            if chunk.type == "update" and chunk.node == "tools":
                break
    assert await rows(backend.make()) == {"mail:0": "finished"}
    again = ReactAgent(model, [tools.mail]).compile(backend.make())
    assert [chunk.type async for chunk in again.astream(None, config())][-1] == "end"
    assert tools.effects == {"mail": 1}


async def test_finished_siblings_of_a_pause_and_of_a_failure_do_not_run_again(
    backend: Backend,
) -> None:
    tools = Tools()
    functions = [tools.mail, tools.approve, tools.log, tools.fail_once]
    model = ScriptedModel([[call(one.__name__, one.__name__) for one in functions], "done"])
    paused = await ReactAgent(model, functions).compile(backend.make()).ainvoke("go", config())
    assert [one.value for one in paused["interrupts"]] == ["may I?"]
    assert await rows(backend.make()) == {
        "mail:0": "finished",
        "approve:1": "failed",
        "log:2": "finished",
        "fail_once:3": "failed",
    }
    app = ReactAgent(model, functions).compile(backend.make())
    result = await app.ainvoke({"resume": "yes"}, config())
    assert tools.effects == {"mail": 1, "log": 1, "fail_once": 2}
    texts = [message.text() for message in result["messages"]]
    assert texts == ["mailed a", "approved: yes", "logged", "at last", "done"]


async def test_a_tool_that_died_runs_again_by_default_and_it_is_logged(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    tools = Tools()
    model = ScriptedModel([[call("mail"), call("pay")], "done"])
    await crash(ReactAgent(model, [tools.mail, tools.pay]).compile(backend.make()))
    assert await rows(backend.make()) == {"mail:0": "finished", "pay:1": "started"}
    app = ReactAgent(model, [tools.mail, tools.pay]).compile(backend.make())
    with caplog.at_level(logging.WARNING, "tenxgraph.graph"):
        result = await app.ainvoke(None, config())
    assert tools.effects == {"mail": 1, "pay": 2}
    assert "unknown whether call 1 of message" in caplog.text
    assert said(result["messages"]) == ["tool: mailed a", "tool: paid", "assistant: done"]


async def test_a_fork_made_in_the_midst_of_the_tools_repeats_none_that_has_finished(
    backend: Backend,
) -> None:
    tools = Tools()
    pay = tool(on_unknown="fail", name="pay")(tools.pay)
    model = ScriptedModel([[call("mail"), call("pay")], "done"])
    app = ReactAgent(model, [tools.mail, pay]).compile(backend.make())
    await crash(app)
    forked = await app.checkpointer.afork_thread(config(), "fork")
    result = await app.ainvoke(None, forked)
    assert tools.effects == {"mail": 1, "pay": 1}
    assert said(result["messages"]) == ["tool: mailed a", f"tool: {UNKNOWN}", "assistant: done"]


async def test_a_tool_that_died_and_must_not_be_repeated_is_told_as_unknown(
    backend: Backend,
) -> None:
    tools = Tools()
    pay = tool(on_unknown="fail", name="pay")(tools.pay)
    model = ScriptedModel([call("pay"), "I will find out."])
    await crash(ReactAgent(model, [pay]).compile(backend.make()))
    result = await ReactAgent(model, [pay]).compile(backend.make()).ainvoke(None, config())
    assert said(result["messages"]) == [f"tool: {UNKNOWN}", "assistant: I will find out."]
    assert tools.effects == {"pay": 1}
    assert await rows(backend.make()) == {"pay:0": "started"}, "which is what is known"


@pytest.mark.parametrize("edited", [call("pay", amount=7), call("refund", amount=5)])
async def test_a_call_that_was_edited_is_another_call_and_what_became_of_the_first_is_told(
    backend: Backend, caplog: pytest.LogCaptureFixture, edited: ToolCall
) -> None:
    keys: list[str] = []

    async def pay(amount: int, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) < 3:
            raise CrashError
        return f"{amount} cents"

    model = ScriptedModel([call("pay", amount=5), "done"])
    tools = [tool(pay), tool(name="refund")(pay)]
    await crash(ReactAgent(model, tools).compile(backend.make()))
    with pytest.raises(CrashError):
        await ReactAgent(model, tools).compile(backend.make()).ainvoke(None, config())
    assert keys == [keys[0]] * 2, "the same on every attempt"
    state = present(await backend.make().aget_state(config()))
    asked = state.context[-1].model_copy(update={"tool_calls": (edited,)})
    state.context = [*state.context[:-1], asked]
    await backend.make().aput_state(config(), state)
    caplog.clear()
    result = await ReactAgent(model, tools).compile(backend.make()).ainvoke(None, config())
    assert said(result["messages"])[0] == f"tool: {edited.args['amount']} cents"
    assert len(set(keys)) == 2
    assert caplog.text.count("it is unknown whether call 0") == 1
    assert "pay, was carried out before it was cut short" in caplog.text


@pytest.mark.parametrize(
    ("answer", "told", "effects"), [("rerun", "paid", 2), ({"receipt": 7}, '{"receipt": 7}', 1)]
)
async def test_somebody_is_asked_about_a_tool_that_died(
    backend: Backend, answer: Any, told: str, effects: int
) -> None:
    tools = Tools()
    pay = tool(on_unknown="ask", name="pay")(tools.pay)
    model = ScriptedModel([[call("pay"), call("mail")], "done"])
    functions: list[Any] = [pay, tools.mail]
    await crash(ReactAgent(model, functions).compile(backend.make()))
    app = ReactAgent(model, functions).compile(backend.make())
    (question,) = (await app.ainvoke(None, config()))["interrupts"]
    assert question.value["unknown"] == "pay"
    assert tools.effects == {"pay": 1, "mail": 1}
    elsewhere = ReactAgent(model, functions).compile(backend.make())
    result = await elsewhere.ainvoke({"resume": {question.id: answer}}, config())
    assert tools.effects == {"pay": effects, "mail": 1}
    assert said(result["messages"])[:2] == [f"tool: {told}", "tool: mailed a"]


async def test_ids_that_are_reused_or_empty_name_no_call(backend: Backend) -> None:
    added: list[int] = []

    def add(a: int) -> int:
        added.append(a)
        return a

    model = ScriptedModel(
        [
            call("add", "call_0", a=1),
            call("add", "call_0", a=2),
            [call("add", "", a=3), call("add", "", a=4)],
            [call("add", "call_0", a=5), call("add", "call_0", a=5)],
            "done",
        ]
    )
    result = await ReactAgent(model, [add]).compile(backend.make()).ainvoke("go", config())
    assert sorted(added) == [1, 2, 3, 4, 5, 5]  # those of one turn run side by side
    told = [message.text() for message in result["messages"] if message.role == "tool"]
    assert told == ["1", "2", "3", "4", "5", "5"]


async def test_a_new_message_settles_what_the_cut_short_run_has_left_open(
    backend: Backend,
) -> None:
    tools = Tools()
    model = ScriptedModel(
        [[call("mail", "same"), call("pay", "same"), call("later", "x")], "As you wish."]
    )
    reached = asyncio.Event()

    async def later() -> str:
        reached.set()
        return "later"

    functions: list[Any] = [tools.mail, tools.pay, later]
    await crash(ReactAgent(model, functions).compile(backend.make()))
    app = ReactAgent(model, functions).compile(backend.make())
    result = await app.ainvoke("forget it", config())
    assert tools.effects == {"mail": 1, "pay": 1}
    assert said(result["state"]) == [
        "user: go",
        "assistant: ",
        "tool: mailed a",
        f"tool: {UNKNOWN}",
        "tool: later",
        "user: forget it",
        "assistant: As you wish.",
    ]
    assert said(await app.aget_state(config())) == said(result["state"])


async def test_a_pause_that_is_given_up_tells_that_the_call_was_not_carried_out(
    backend: Backend,
) -> None:
    reached = asyncio.Event()

    async def slow() -> None:
        reached.set()
        await asyncio.Event().wait()

    model = ScriptedModel([call("slow"), "ok"])
    app = ReactAgent(model, [slow]).compile(backend.make(), interrupt_before=["tools"])
    await app.ainvoke("go", config())
    result = await app.ainvoke("no", config(on_pending="cancel"))
    assert said(result["state"])[2:] == [f"tool: {NOT_CARRIED_OUT}", "user: no", "assistant: ok"]
    assert not reached.is_set()


async def test_a_deleted_thread_gets_no_ledger_rows_and_no_tool_runs(backend: Backend) -> None:
    tools = Tools()
    checkpointer, other = backend.make(), backend.make()

    async def slow() -> str:
        await other.aclean_thread(config())
        return "late"

    model = ScriptedModel([call("slow"), call("mail"), "done"])
    app = ReactAgent(model, [slow, tools.mail]).compile(checkpointer)
    with pytest.raises(StaleStateError):
        await app.ainvoke("go", config())
    assert not tools.effects
    assert await other.alist_tool_results(config()) == []
    assert await other.aget_thread(config()) is None


async def test_a_ledger_that_cannot_be_written_fails_the_run_before_the_tool_runs(
    backend: Backend,
) -> None:
    tools = Tools()
    checkpointer = backend.make()
    put = checkpointer.aput_tool_result

    async def broken(*_: Any) -> None:
        raise OSError("disk full")

    checkpointer.aput_tool_result = broken  # type: ignore[method-assign, assignment]
    model = ScriptedModel([call("mail"), "done"])
    app = ReactAgent(model, [tools.mail]).compile(checkpointer)
    with pytest.raises(NodeError, match="disk full"):
        await app.ainvoke("go", config())
    assert not tools.effects
    checkpointer.aput_tool_result = put  # type: ignore[method-assign]
    await app.ainvoke(None, config())
    assert tools.effects == {"mail": 1}


async def test_a_cancelled_call_leaves_its_end_unknown_and_a_finished_one_recorded(
    backend: Backend,
) -> None:
    tools = Tools()
    reached = asyncio.Event()

    async def slow() -> None:
        reached.set()
        await asyncio.Event().wait()

    async def quick() -> str:
        return tools.mail()

    model = ScriptedModel([[call("quick"), call("slow")], "ok"])
    checkpointer, recorded = backend.make(), asyncio.Event()
    put = checkpointer.aput_tool_result

    async def aput_tool_result(config: Any, execution: Any) -> None:
        await put(config, execution)
        if execution.status == "finished":
            recorded.set()

    checkpointer.aput_tool_result = aput_tool_result  # type: ignore[method-assign]
    app = ReactAgent(model, [quick, slow]).compile(checkpointer)
    running = asyncio.create_task(app.ainvoke("go", config()))
    await asyncio.gather(reached.wait(), recorded.wait())
    await app.astop(config())
    stopped = await running
    assert stopped["state"].execution_meta.status == "stopped"
    assert await rows(checkpointer) == {"quick:0": "finished", "slow:1": "started"}


async def test_a_thread_that_was_cut_anywhere_goes_on_with_a_new_message(backend: Backend) -> None:
    file = Path(__file__).parents[2] / "examples/data/airline_conversations.jsonl"
    recorded = json.loads(file.read_text().splitlines()[0])["messages"]
    history = [Message.from_openai(one) for one in recorded if one["role"] != "system"]
    checkpointer = backend.make()
    # Every request is held against the rules of providers by the model itself.
    app = ReactAgent(ScriptedModel(lambda messages, tools: "ok"), [Tools().mail]).compile(
        checkpointer
    )
    for cut in range(1, len(history)):
        thread = config(f"cut {cut}")
        copies = [Message(**one.__dict__) for one in history[:cut]]
        await checkpointer.aput_state(dict(thread), AgentState(context=copies))
        state = (await app.ainvoke("hi", thread))["state"]
        assert broken_rules([one.to_openai() for one in sendable(state.context)]) == []
        turn = last_turn(state.context[:-2])
        assert turn is None or not turn.open, "what was open is settled in the thread, too"


async def test_a_tool_that_took_too_long_is_of_unknown_outcome_when_its_call_comes_up_again(
    checkpointer: Checkpointer,
) -> None:
    paid = []

    @tool(on_unknown="fail")
    async def pay(amount: int) -> str:
        paid.append(amount)
        await asyncio.Event().wait()
        return "never"

    def approve() -> str:
        return f"approved: {interrupt('may I?')}"

    model = ScriptedModel([[call("pay", "a", amount=5), call("approve", "b")], "done"])
    agent = ReactAgent(model, tools=[pay, approve]).compile(checkpointer=checkpointer)
    impatient = config(tool_timeout=0.5)
    await agent.ainvoke("go", impatient)
    result = await agent.ainvoke({"resume": "yes"}, impatient)
    assert paid == [5]
    assert UNKNOWN in [message.text() for message in result["messages"]]
