"""Answers that are sent again: each reaches the interrupt that it was given to, and no other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import Writes, also_behind_redis, chain, config, said

from tenxgraph.core.exceptions import InputError, NodeError
from tenxgraph.core.graph import CompiledGraph, StateGraph, ToolNode, interrupt, tool
from tenxgraph.core.state import AgentState, ExecutionState, Interrupt, Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel

pytestmark = also_behind_redis

LONG, MIDDLE, SHORT = 200, 40, 6


def user_text(state: AgentState) -> str:
    return next(one.text() for one in reversed(state.context) if one.role == "user")


class Payments:
    """Payments that somebody has to approve, in each of the ways in which a run can ask."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def by_tool(self, checkpointer: Checkpointer) -> CompiledGraph[Any]:
        @tool
        def pay(amount: str) -> str:
            if interrupt({"pay": amount}) == "yes":
                self.paid.append(amount)
            return "over"

        def ask(state: AgentState) -> Message:
            call = ToolCall(id="call", name="pay", args={"amount": user_text(state)})
            return Message.assistant(tool_calls=[call])

        graph = StateGraph().add_node("ask", ask).add_node("tools", ToolNode([pay]))
        graph.add_node("forget", forget).set_entry_point("ask")
        graph.add_edge("ask", "tools").add_edge("tools", "forget")
        return graph.compile(checkpointer)

    def by_node(self, checkpointer: Checkpointer) -> CompiledGraph[Any]:
        def pay(state: AgentState) -> str:
            amount = user_text(state)
            if interrupt({"pay": amount}) == "yes":
                self.paid.append(amount)
            return "over"

        return chain(pay, forget, checkpointer=checkpointer)

    def by_pause_before(self, checkpointer: Checkpointer) -> CompiledGraph[Any]:
        return chain(self._pay, forget, checkpointer=checkpointer, interrupt_before=["_pay"])

    def by_pause_after(self, checkpointer: Checkpointer) -> CompiledGraph[Any]:
        def look() -> None:
            """Look at it."""

        return chain(look, self._pay, forget, checkpointer=checkpointer, interrupt_after=["look"])

    def _pay(self, state: AgentState) -> str:
        self.paid.append(user_text(state))
        return "over"


def forget(state: AgentState) -> AgentState:
    """Keep the thread short: each of these turns is read hundreds of times."""
    return state.model_copy(update={"context": []})


MAKERS = [
    Payments.by_tool,
    Payments.by_node,
    Payments.by_pause_before,
    Payments.by_pause_after,
]


async def paused_id(app: CompiledGraph[Any], text: str | None, **more: Any) -> str:
    """The id of the one interrupt at which a run pauses."""
    (question,) = (await app.ainvoke(text, config(**more)))["interrupts"]
    name: str = question.id
    return name


async def refused(app: CompiledGraph[Any], answer: Any, **more: Any) -> None:
    with pytest.raises(InputError, match="not wait"):
        await app.ainvoke({"resume": answer}, config(**more))


@pytest.mark.parametrize("make", MAKERS)
async def test_an_answer_of_an_earlier_turn_is_refused_at_every_later_one(
    backend: Backend, make: Callable[[Payments, Checkpointer], CompiledGraph[Any]]
) -> None:
    longest = LONG if make is Payments.by_tool else MIDDLE
    turns = longest if backend.name == "memory" else SHORT
    payments = Payments()
    app = make(payments, backend.make())
    earlier: list[str] = []
    for turn in range(turns):
        current = await paused_id(app, f"amount {turn}")
        for old in earlier:
            await refused(app, {old: "yes"})
        await app.ainvoke({"resume": {current: "yes"}}, config())
        assert payments.paid == [f"amount {one}" for one in range(turn + 1)]
        await refused(app, {current: "yes"})
        earlier.append(current)
    assert len(set(earlier)) == turns


async def test_an_answer_to_a_cancelled_question_is_none_to_the_next_one(
    checkpointer: Checkpointer,
) -> None:
    payments = Payments()
    app = payments.by_tool(checkpointer)
    given_up = await paused_id(app, "5")
    current = await paused_id(app, "5000", on_pending="cancel")
    await refused(app, {given_up: "yes"})
    assert payments.paid == []
    await app.ainvoke({"resume": {current: "no"}}, config())
    assert payments.paid == []


async def test_several_answers_one_of_them_old_are_refused_as_a_whole(
    checkpointer: Checkpointer,
) -> None:
    payments = Payments()
    app = payments.by_tool(checkpointer)
    old = await paused_id(app, "5")
    await app.ainvoke({"resume": {old: "yes"}}, config())
    current = await paused_id(app, "7")
    for answer in ({current: "yes", old: "yes"}, {current: "yes", "note": "by Ada"}):
        await refused(app, answer)
    assert payments.paid == ["5"]
    await app.ainvoke({"resume": {current: "yes"}}, config())
    assert payments.paid == ["5", "7"]


@pytest.mark.parametrize("old", ["tools:1:0:0", "before:pay:0", "after:look:1", "pay:0:0"])
async def test_an_id_as_an_earlier_version_made_them_is_no_bare_answer(
    checkpointer: Checkpointer, old: str
) -> None:
    payments = Payments()
    app = payments.by_tool(checkpointer)
    await paused_id(app, "5")
    await refused(app, {old: "yes"})
    assert payments.paid == []


async def test_a_thread_that_an_earlier_version_paused_can_be_answered(backend: Backend) -> None:
    question = Interrupt(id="pay:0:0", node="pay", value={"pay": "5"})
    meta = ExecutionState(
        current_node="pay", status="interrupted", run_id="r", calls={"r": 0}, interrupts=[question]
    )
    stored = AgentState(context=[Message.text_message("5")], execution_meta=meta)
    await backend.make().aput_state(config(), stored)
    payments = Payments()
    app = payments.by_node(backend.make())
    await app.ainvoke({"resume": {question.id: "yes"}}, config())
    assert payments.paid == ["5"]
    assert await paused_id(app, "7") != question.id
    await refused(app, {question.id: "yes"})
    assert payments.paid == ["5"]


async def test_a_thread_deleted_and_made_again_takes_no_answer_of_the_first(
    backend: Backend,
) -> None:
    payments = Payments()
    app = payments.by_node(backend.make())
    first = await paused_id(app, "5", run_id="chosen")
    await backend.make().aclean_thread(config())
    second = await paused_id(app, "5000", run_id="chosen")
    assert second != first
    await refused(app, {first: "yes"})
    assert payments.paid == []


async def test_a_run_id_that_is_used_for_two_runs_makes_two_questions(
    checkpointer: Checkpointer,
) -> None:
    payments = Payments()
    app = payments.by_node(checkpointer)
    first = await paused_id(app, "5", run_id="chosen")
    await app.ainvoke({"resume": {first: "yes"}}, config(run_id="chosen"))
    other = await paused_id(app, "6", run_id="other")
    await app.ainvoke({"resume": {other: "no"}}, config(run_id="other"))
    again = await paused_id(app, "5000", run_id="chosen")
    assert again != first
    await refused(app, {first: "yes"}, run_id="chosen")
    assert payments.paid == ["5"]


async def test_an_answered_run_that_failed_and_is_given_up_leaves_no_answer_behind(
    checkpointer: Checkpointer,
) -> None:
    payments, failures = Payments(), [OSError("no money"), OSError("no money")]

    def pay(state: AgentState) -> str:
        if interrupt("sure?") == "yes":
            if failures:
                raise failures.pop()
            payments.paid.append(user_text(state))
        return "over"

    app = chain(pay, checkpointer=checkpointer)
    first = await paused_id(app, "5")
    with pytest.raises(NodeError):
        await app.ainvoke({"resume": {first: "yes"}}, config())
    with pytest.raises(NodeError):
        await app.ainvoke(None, config())
    second = await paused_id(app, "5000")
    await refused(app, {first: "yes"})
    assert payments.paid == []
    await app.ainvoke({"resume": {second: "yes"}}, config())
    assert payments.paid == ["5000"]


async def test_forks_of_a_pause_ask_each_for_itself_from_then_on(backend: Backend) -> None:
    graph = chain(self_asking("first?"), self_asking("second?"), checkpointer=backend.make())
    inherited = await paused_id(graph, "go")
    await graph.checkpointer.afork_thread(config(), "fork")
    (here,) = (await graph.ainvoke({"resume": {inherited: "a"}}, config()))["interrupts"]
    (there,) = (await graph.ainvoke({"resume": {inherited: "b"}}, config("fork")))["interrupts"]
    assert here.id != there.id
    with pytest.raises(InputError):
        await graph.ainvoke({"resume": {here.id: "c"}}, config("fork"))
    result = await graph.ainvoke({"resume": {there.id: "c"}}, config("fork"))
    assert said(result["state"])[1:] == ["assistant: first? b", "assistant: second? c"]


def self_asking(question: str) -> Callable[[], str]:
    def ask() -> str:
        return f"{question} {interrupt(question)}"

    ask.__name__ = question.strip("?")
    return ask


async def test_a_run_that_was_cut_short_takes_its_own_answer_again_and_no_other(
    backend: Backend,
) -> None:
    payments = Payments()
    app = payments.by_node(backend.make())
    old = await paused_id(app, "5")
    await app.ainvoke({"resume": {old: "yes"}}, config())
    dying = backend.make()
    current = await paused_id(payments.by_node(dying), "7")
    writes = Writes(dying)

    def die(_state: AgentState) -> None:
        if writes.states:
            raise SystemError("the process dies")

    writes.before = die
    with pytest.raises(SystemError):
        await payments.by_node(dying).ainvoke({"resume": {current: "yes"}}, config())
    payments.paid.clear()
    await refused(payments.by_node(backend.make()), {old: "yes"})
    assert payments.paid == []
    await payments.by_node(backend.make()).ainvoke({"resume": {current: "yes"}}, config())
    assert payments.paid == ["7"]


async def test_tools_that_a_node_calls_one_after_the_other_ask_each_for_itself(
    backend: Backend,
) -> None:
    paid: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        if interrupt(f"pay {amount}?") == "yes":
            paid.append(amount)
        return "over"

    def asked(amount: int) -> Message:
        call = ToolCall(id="c", name="pay", args={"amount": amount})
        return Message.assistant(tool_calls=[call], message_id=f"asks for {amount}")

    async def work(state: AgentState, config: Any, checkpointer: Any) -> list[Message]:
        said = list(state.context)
        for amount in (5, 5000):
            said.append(asked(amount))
            own = state.model_copy(update={"context": said})
            said += await ToolNode([pay])(own, config, checkpointer)
        return said

    app = chain(work, checkpointer=backend.make())
    first = await paused_id(app, "go")
    elsewhere = chain(work, checkpointer=backend.make())
    (second,) = (await elsewhere.ainvoke({"resume": {first: "yes"}}, config()))["interrupts"]
    assert (second.value, paid) == ("pay 5000?", [5])
    await refused(elsewhere, {first: "yes"})
    result = await elsewhere.ainvoke({"resume": {second.id: "no"}}, config())
    assert (result["state"].execution_meta.status, paid) == ("completed", [5])


async def test_somebody_who_is_asked_about_a_tool_that_died_is_asked_anew_in_the_next_turn(
    backend: Backend,
) -> None:
    ran: list[str] = []

    class DiesError(BaseException):
        pass

    @tool(on_unknown="ask")
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        raise DiesError

    def agent() -> CompiledGraph[Any]:
        model = ScriptedModel(
            lambda messages, _tools: (
                "done" if messages[-1].role == "tool" else ToolCall(id="c", name="pay")
            )
        )
        return ReactAgent(model, [pay]).compile(backend.make())

    ids = []
    for turn in range(2):
        with pytest.raises(DiesError):
            await agent().ainvoke(f"go {turn}", config())
        ids.append(await paused_id(agent(), None))
        if turn:
            await refused(agent(), {ids[0]: "rerun"})
        await agent().ainvoke({"resume": {ids[-1]: "it was paid"}}, config())
    assert ran == ["pay", "pay"]


async def test_calls_that_overtake_one_another_ask_each_for_itself(backend: Backend) -> None:
    paid: list[int] = []
    attempts = 0

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        if interrupt({"pay": amount}) == "yes":
            paid.append(amount)
        return "over"

    async def work(state: AgentState, config: Any, checkpointer: Any) -> str:
        nonlocal attempts
        attempts += 1
        amounts = (5, 5000) if attempts % 2 else (5000, 5)

        async def called(amount: int) -> None:
            call = ToolCall(id="c", name="pay", args={"amount": amount})
            asks = Message.assistant(tool_calls=[call], message_id=f"{amount}")
            own = state.model_copy(update={"context": [*state.context, asks]})
            await ToolNode([pay])(own, config, checkpointer)

        await asyncio.gather(*map(called, amounts))
        return "over"

    app = chain(work, checkpointer=backend.make())
    result = await app.ainvoke("go", config())
    while result["interrupts"]:
        answers = {
            one.id: "yes" if one.value == {"pay": 5} else "no" for one in result["interrupts"]
        }
        result = await app.ainvoke({"resume": answers}, config())
    assert paid == [5]


async def test_a_model_that_calls_something_else_the_next_time_is_asked_anew(
    backend: Backend,
) -> None:
    paid: list[int] = []
    amounts = iter((5, 5000, 5000))

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        if interrupt({"pay": amount}) == "yes":
            paid.append(amount)
        return "over"

    async def work(state: AgentState, config: Any, checkpointer: Any) -> list[Message]:
        call = ToolCall(id="c", name="pay", args={"amount": next(amounts)})
        own = state.model_copy(update={"context": [Message.assistant(tool_calls=[call])]})
        return await ToolNode([pay])(own, config, checkpointer)

    app = chain(work, checkpointer=backend.make())
    first = await paused_id(app, "go")
    (second,) = (await app.ainvoke({"resume": {first: "yes"}}, config()))["interrupts"]
    assert (second.value, paid) == ({"pay": 5000}, [])
    await app.ainvoke({"resume": {second.id: "yes"}}, config())
    assert paid == [5000]


async def test_a_name_with_a_line_break_and_a_list_hide_no_old_answer(backend: Backend) -> None:
    def ask(state: AgentState) -> str:
        return f"paid {user_text(state)}" if interrupt(user_text(state)) else "left"

    graph = StateGraph().add_node("as\nk", ask).set_entry_point("as\nk")
    app = graph.compile(backend.make())
    first = await paused_id(app, "5")
    await app.ainvoke({"resume": {first: "yes"}}, config())
    second = await paused_id(app, "5000")
    await refused(app, {first: "yes"})
    for answers in ([{first: "yes"}], [{second: "yes"}]):
        with pytest.raises(InputError, match="Nothing was done"):
            await app.ainvoke({"resume": answers}, config())
    result = await app.ainvoke({"resume": {second: False}}, config())
    assert result["messages"][-1].text() == "left"
