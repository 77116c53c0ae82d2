"""Questions that tasks of one node or tool ask: one pause, and each of them gets its answer."""

import asyncio
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import chain, config, on_durable, said

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import interrupt
from tenxgraph.core.state import Interrupt, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel

pytestmark = on_durable

AMOUNTS = [5, 7, 9]


class Payments:
    """Asks about several payments at once; every attempt gets to the questions in another order."""

    def __init__(self) -> None:
        self.attempts = 0

    async def pay(self) -> str:
        """Pay all."""
        self.attempts += 1
        delays = AMOUNTS if self.attempts % 2 else AMOUNTS[::-1]
        # All are there before the first asks, or its pause would cut the others short.
        everybody = asyncio.Barrier(len(AMOUNTS))
        async with asyncio.TaskGroup() as group:
            paying = [
                group.create_task(self._one(amount, delay, everybody))
                for amount, delay in zip(AMOUNTS, delays, strict=True)
            ]
        return ", ".join(one.result() for one in paying)

    async def _one(self, amount: int, turns: int, everybody: asyncio.Barrier) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        await everybody.wait()
        return f"{amount}: {interrupt({'pay': amount})}"


def by_amount(questions: list[Interrupt]) -> dict[int, str]:
    return {one.value["pay"]: one.id for one in questions}


async def test_a_node_whose_tasks_ask_pauses_with_all_their_questions(backend: Backend) -> None:
    payments = Payments()
    paused = await chain(payments.pay, checkpointer=backend.make()).ainvoke("go", config())
    ids = by_amount(paused["interrupts"])
    assert sorted(ids) == AMOUNTS
    assert len(set(ids.values())) == len(AMOUNTS)
    elsewhere = chain(payments.pay, checkpointer=backend.make())
    half = await elsewhere.ainvoke({"resume": {ids[5]: "yes", ids[9]: "no"}}, config())
    assert by_amount(half["interrupts"]) == {7: ids[7]}
    result = await elsewhere.ainvoke({"resume": "later"}, config())
    assert said(result["messages"]) == ["assistant: 5: yes, 7: later, 9: no"]


async def test_a_tool_whose_tasks_ask_pauses_with_all_their_questions(backend: Backend) -> None:
    payments = Payments()
    model = ScriptedModel([ToolCall(id="1", name="pay", args={}), "done"])
    paused = await ReactAgent(model, [payments.pay]).compile(backend.make()).ainvoke("go", config())
    ids = by_amount(paused["interrupts"])
    assert sorted(ids) == AMOUNTS
    answers = {ids[amount]: f"answer {amount}" for amount in AMOUNTS}
    elsewhere = ReactAgent(model, [payments.pay]).compile(backend.make())
    result = await elsewhere.ainvoke({"resume": answers}, config())
    assert [one.text() for one in result["messages"][-2:]] == [
        "5: answer 5, 7: answer 7, 9: answer 9",
        "done",
    ]
    assert payments.attempts == 2


async def test_what_fails_beside_a_question_is_the_nodes_failure(
    checkpointer: Checkpointer,
) -> None:
    async def ask() -> None:
        interrupt("sure?")

    async def fail(what: str) -> None:
        raise ValueError(what)

    failing = ["no money"]

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            for what in failing:
                group.create_task(fail(what))

    app = chain(work, checkpointer=checkpointer)
    with pytest.raises(NodeError, match="ValueError: no money"):
        await app.ainvoke("go", config())
    state = await app.aget_state(config())
    assert state is not None
    assert state.execution_meta.status == "error"
    failing.append("no time")
    with pytest.raises(NodeError, match=r"ExceptionGroup: .*2 sub-exceptions"):
        await app.ainvoke(None, config())
    failing.clear()
    paused = await app.ainvoke(None, config())
    assert [one.value for one in paused["interrupts"]] == ["sure?"]
    result = await app.ainvoke({"resume": "yes"}, config())
    assert result["state"].execution_meta.status == "completed"


async def test_a_task_that_was_cut_short_asks_when_the_run_goes_on(
    checkpointer: Checkpointer,
) -> None:
    async def early(asked: asyncio.Event) -> str:
        answer = interrupt("early?")
        asked.set()
        return f"early {answer}"

    async def late(asked: asyncio.Event) -> str:
        await asked.wait()
        return f"late {interrupt('late?')}"

    async def work() -> str:
        asked = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(asked)) for one in (late, early)]
        return ", ".join(one.result() for one in tasks)

    app = chain(work, checkpointer=checkpointer)
    seen: list[Any] = []
    result = await app.ainvoke("go", config())
    while result["interrupts"]:
        seen.append([one.value for one in result["interrupts"]])
        result = await app.ainvoke({"resume": f"yes {len(seen)}"}, config())
    assert seen == [["early?"], ["late?"]]
    assert said(result["messages"]) == ["assistant: late yes 2, early yes 1"]


async def test_equal_questions_are_as_many_as_were_asked_and_the_nodes_own_keep_their_order(
    checkpointer: Checkpointer,
) -> None:
    async def ask() -> str:
        return str(interrupt("again?"))

    async def work() -> str:
        first = interrupt("first?")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask()) for _ in range(2)]
        return ", ".join([first, *sorted(one.result() for one in tasks), interrupt("last?")])

    app = chain(work, checkpointer=checkpointer)
    await app.ainvoke("go", config())
    paused = await app.ainvoke({"resume": "1st"}, config())
    ids = [one.id for one in paused["interrupts"]]
    assert len(set(ids)) == 2
    await app.ainvoke({"resume": {ids[0]: "a", ids[1]: "b"}}, config())
    result = await app.ainvoke({"resume": "end"}, config())
    assert said(result["messages"]) == ["assistant: 1st, a, b, end"]
