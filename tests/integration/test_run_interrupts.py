"""Pauses: asked inside nodes and tools, or set at nodes; answered by id, in whatever process."""

from collections import Counter
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import Writes, also_behind_redis, chain, config, said

from tenxgraph.core.exceptions import GraphError, InputError, PendingInterruptError
from tenxgraph.core.graph import END, StateGraph, interrupt
from tenxgraph.core.state import AgentState, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel

pytestmark = also_behind_redis


def call(name: str, call_id: str = "c", /, **args: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, args=args)


def ask() -> str:
    return f"you said {interrupt({'question': 'sure?'})}"


async def ask_twice() -> str:
    first = interrupt("first?")
    second = interrupt("second?")
    return f"{first} and {second}"


def done() -> str:
    return "done"


async def test_a_node_asks_and_goes_on_with_the_answer_in_another_process(
    backend: Backend,
) -> None:
    first = backend.make()
    writes = Writes(first)
    paused = await chain(ask, done, checkpointer=first).ainvoke("go", config())
    assert paused["messages"] == []
    (question,) = paused["interrupts"]
    assert (question.node, question.value) == ("ask", {"question": "sure?"})
    assert writes.steps()[-1] == ("ask", "interrupted"), "the final write of a paused run"
    result = await chain(ask, done, checkpointer=backend.make()).ainvoke(
        {"resume": "yes"}, config()
    )
    assert said(result["messages"]) == ["assistant: you said yes", "assistant: done"]
    assert result["run_id"] == paused["run_id"]
    assert result["interrupts"] == []


@pytest.mark.parametrize("answer", [None, False, "", {"ok": True}, ["a"], {}])
async def test_any_value_is_an_answer(checkpointer: Checkpointer, answer: Any) -> None:
    app = chain(ask, checkpointer=checkpointer)
    await app.ainvoke("go", config())
    result = await app.ainvoke({"resume": answer}, config())
    assert said(result["messages"]) == [f"assistant: you said {answer}"]


async def test_questions_one_after_the_other_keep_the_answers_before(
    checkpointer: Checkpointer,
) -> None:
    app = chain(ask_twice, checkpointer=checkpointer)
    first = (await app.ainvoke("go", config()))["interrupts"]
    second = (await app.ainvoke({"resume": "a"}, config()))["interrupts"]
    assert [one.value for one in (*first, *second)] == ["first?", "second?"]
    assert first[0].id != second[0].id
    result = await app.ainvoke({"resume": {second[0].id: "b"}}, config())
    assert said(result["messages"]) == ["assistant: a and b"]


async def test_a_node_that_is_run_again_asks_again(checkpointer: Checkpointer) -> None:
    graph = StateGraph().add_node("ask", ask).set_entry_point("ask")
    graph.add_conditional_edges(
        "ask", lambda state: END if state.context[-1].text().endswith("enough") else "ask"
    )
    app = graph.compile(checkpointer=checkpointer)
    ids = {(await app.ainvoke("go", config()))["interrupts"][0].id}
    for answer in ("more", "more", "enough"):
        result = await app.ainvoke({"resume": answer}, config())
        ids |= {one.id for one in result["interrupts"]}
    assert len(ids) == 3, "an answer is used once"
    assert said(result["state"])[-1] == "assistant: you said enough"


async def test_several_tools_ask_at_once_and_are_answered_by_id_and_in_parts(
    backend: Backend,
) -> None:
    effects = Counter[str]()

    def book(seat: str) -> str:
        answer = interrupt(f"book {seat}?")
        effects[seat] += 1
        return f"{seat}: {answer}"

    model = ScriptedModel(
        [[call("book", "same", seat="1A"), call("book", "same", seat="2B")], "ok"]
    )
    app = ReactAgent(model, [book]).compile(backend.make())
    paused = await app.ainvoke("go", config())
    ids = {one.value: one.id for one in paused["interrupts"]}
    assert set(ids) == {"book 1A?", "book 2B?"}
    with pytest.raises(GraphError, match="waits for several answers"):
        await app.ainvoke({"resume": "yes"}, config())
    elsewhere = ReactAgent(model, [book]).compile(backend.make())
    half = await elsewhere.ainvoke({"resume": {ids["book 2B?"]: "no"}}, config())
    assert [one.value for one in half["interrupts"]] == ["book 1A?"]
    assert effects == {"2B": 1}
    result = await elsewhere.ainvoke({"resume": "yes"}, config())
    assert effects == {"1A": 1, "2B": 1}
    assert [one.text() for one in result["messages"]] == ["1A: yes", "2B: no", "ok"]


async def test_a_pause_survives_pruning_and_another_run_of_nothing(backend: Backend) -> None:
    kept = backend.make(state_history_limit=1)
    app = chain(ask, done, checkpointer=kept)
    await app.ainvoke("go", config())
    for attempt in range(3):
        with pytest.raises(PendingInterruptError, match=r"'t' waits for an answer .*sure\?"):
            await app.ainvoke(f"hello? {attempt}", config())
        with pytest.raises(PendingInterruptError):
            await app.ainvoke(None, config())
    state = await app.aget_state(config())
    assert state is not None
    assert (state.execution_meta.status, said(state)) == ("interrupted", ["user: go"])
    assert len(await kept.alist_states(config())) == 1
    result = await app.ainvoke({"resume": "ok"}, config())
    assert said(result["messages"])[-1] == "assistant: done"


async def test_a_pause_that_is_given_up_keeps_the_message(checkpointer: Checkpointer) -> None:
    model = ScriptedModel([call("ask"), "As you like."])
    app = ReactAgent(model, [ask]).compile(checkpointer)
    await app.ainvoke("pay", config())
    result = await app.ainvoke("hello?", config(on_pending="cancel"))
    assert [one for one in said(result["state"]) if one.startswith("user")] == [
        "user: pay",
        "user: hello?",
    ]
    assert result["interrupts"] == []
    assert result["state"].execution_meta.status == "completed"


async def test_an_answer_that_nobody_waits_for_is_refused(checkpointer: Checkpointer) -> None:
    app = chain(done, checkpointer=checkpointer)
    with pytest.raises(InputError, match="no thread 't' to answer"):
        await app.ainvoke({"resume": "yes"}, config())
    assert await checkpointer.aget_thread(config()) is None
    await app.ainvoke("go", config())
    with pytest.raises(InputError, match="not waiting for an answer"):
        await app.ainvoke({"resume": "yes"}, config())


async def test_pauses_are_set_before_and_after_nodes(checkpointer: Checkpointer) -> None:
    ran: list[str] = []

    def first() -> None:
        ran.append("first")

    def second() -> None:
        ran.append("second")

    def third() -> None:
        ran.append("third")

    app = chain(
        first,
        second,
        third,
        checkpointer=checkpointer,
        interrupt_before=["first", "third"],
        interrupt_after=["first"],
    )
    seen = []
    given: Any = "go"
    while True:
        result = await app.ainvoke(given, config())
        seen.append((list(ran), [one.id.partition(":")[2] for one in result["interrupts"]]))
        if not result["interrupts"]:
            break
        given = {"resume": None}
    assert seen == [
        ([], ["before:first:0"]),
        (["first"], ["after:first:1"]),
        (["first", "second"], ["before:third:2"]),
        (["first", "second", "third"], []),
    ]


async def test_an_approved_node_that_fails_is_not_approved_again(
    checkpointer: Checkpointer,
) -> None:
    failures = [RuntimeError("no")]

    def work() -> str:
        if failures:
            raise failures.pop()
        return "worked"

    app = chain(done, work, checkpointer=checkpointer, interrupt_before=["work"])
    await app.ainvoke("go", config())
    with pytest.raises(GraphError):
        await app.ainvoke({"resume": True}, config())
    result = await app.ainvoke(None, config())
    assert said(result["messages"]) == ["assistant: worked"]


async def test_an_answer_that_was_given_survives_a_crash_of_the_node(backend: Backend) -> None:
    app = chain(ask, done, checkpointer=(dying := backend.make()))
    await app.ainvoke("go", config())
    writes = Writes(dying)

    def die(_state: AgentState) -> None:
        if writes.states:
            raise SystemError("the process dies")

    writes.before = die
    with pytest.raises(SystemError):
        await app.ainvoke({"resume": "yes"}, config())
    result = await chain(ask, done, checkpointer=backend.make()).ainvoke(None, config())
    assert said(result["messages"]) == ["assistant: you said yes", "assistant: done"]
