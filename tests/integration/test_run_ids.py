"""A call that did not hear its answer asks once more under its `run_id`, and hears that one."""

import asyncio
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import Config, Writes, also_behind_redis, chain, config, said

from tenxgraph.core.exceptions import InputError, NodeError, PendingInterruptError
from tenxgraph.core.graph import CompiledGraph, RunResult, interrupt
from tenxgraph.core.state import AgentState, Message, TokenUsages

pytestmark = also_behind_redis


class CrashError(Exception):
    """The process dies: nothing that comes later is written."""


class Worker:
    """Nodes that count how often they ran, and do with messages what nodes may do."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.broken = False

    def speak(self) -> list[Any]:
        self.ran.append("speak")
        usage = TokenUsages(prompt_tokens=1, completion_tokens=2, total_tokens=3)
        said = Message.assistant("1", message_id="draft").model_copy(update={"usages": usage})
        return [said, Message.text_message("a hint", role="user"), "2"]

    def edit(self, state: AgentState) -> list[Any]:
        self.ran.append("edit")
        if self.broken:
            raise RuntimeError("no")
        return [Message.assistant("1, edited", message_id="draft"), "3"]

    def forget(self, state: AgentState) -> AgentState:
        self.ran.append("forget")
        state.context = state.context[-1:]
        return state

    def ask(self) -> str:
        self.ran.append("ask")
        return f"you said {interrupt('sure?')}"

    def on(self, checkpointer: Checkpointer, *names: str) -> CompiledGraph[Any]:
        return chain(*(getattr(self, name) for name in names), checkpointer=checkpointer)


def heard(result: RunResult[Any]) -> dict[str, Any]:
    """All that a caller is told."""
    return {name: value for name, value in result.items() if name != "state"}


def dying_after(writes_left: int, checkpointer: Checkpointer) -> Checkpointer:
    """Let the process die instead of the write after so many."""
    writes = Writes(checkpointer)

    def die(_state: AgentState) -> None:
        if len(writes.states) >= writes_left:
            raise CrashError

    writes.before = die
    return checkpointer


async def test_the_answer_is_what_it_was_the_first_time(backend: Backend) -> None:
    worker = Worker()
    names = ("speak", "edit", "forget")
    await worker.on(backend.make(), "speak").ainvoke("an earlier turn", config())
    worker.ran.clear()
    first = await worker.on(backend.make(), *names).ainvoke("hi", config(run_id="r"))
    texts = ["assistant: 1, edited", "user: a hint", "assistant: 2", "assistant: 3"]
    assert said(first["messages"]) == texts
    for _ in range(2):
        again = await worker.on(backend.make(), *names).ainvoke("hi", config(run_id="r"))
        assert heard(again) == heard(first)
    assert worker.ran == list(names)
    assert said(first["state"]) == ["assistant: 3"]


async def test_a_run_that_was_taken_over_answers_each_of_its_calls(backend: Backend) -> None:
    worker = Worker()
    names = ("speak", "edit", "forget")
    with pytest.raises(CrashError):
        await worker.on(dying_after(2, backend.make()), *names).ainvoke("a", config(run_id="r1"))
    with pytest.raises(CrashError):
        await worker.on(dying_after(1, backend.make()), *names).ainvoke("b", config(run_id="r2"))
    second = await worker.on(backend.make(), *names).ainvoke("b", config(run_id="r2"))
    assert said(second["messages"]) == ["assistant: 1, edited", "assistant: 3"]
    assert second["run_id"] == "r2"
    assert worker.ran == ["speak", "edit", "edit", "edit", "forget"]
    again = await worker.on(backend.make(), *names).ainvoke("b", config(run_id="r2"))
    assert heard(again) == heard(second)
    first = await worker.on(backend.make(), *names).ainvoke("a", config(run_id="r1"))
    texts = ["assistant: 1, edited", "user: a hint", "assistant: 2", "assistant: 3"]
    assert said(first["messages"]) == texts
    assert first["run_id"] == "r1"
    assert len(worker.ran) == 5
    users = [text for text in said(await backend.make().alist_messages(config())) if "user" in text]
    assert users == ["user: a", "user: a hint", "user: b"], "each input once"


async def test_a_retry_after_an_error_answers_with_what_the_first_attempt_has_added(
    checkpointer: Checkpointer,
) -> None:
    worker = Worker()
    worker.broken = True
    app = worker.on(checkpointer, "speak", "edit")
    with pytest.raises(NodeError):
        await app.ainvoke("hi", config(run_id="r"))
    worker.broken = False
    result = await app.ainvoke("hi", config(run_id="r"))
    assert worker.ran == ["speak", "edit", "edit"]
    texts = ["assistant: 1, edited", "user: a hint", "assistant: 2", "assistant: 3"]
    assert said(result["messages"]) == texts
    assert heard(await app.ainvoke("hi", config(run_id="r"))) == heard(result)


async def test_a_pause_is_an_answer_and_heard_again(backend: Backend) -> None:
    worker = Worker()
    names = ("speak", "ask")
    paused = await worker.on(backend.make(), *names).ainvoke("hi", config(run_id="r"))
    app = worker.on(backend.make(), *names)
    for more in ({}, {"on_pending": "cancel"}):
        again = await app.ainvoke("hi", config(run_id="r", **more))
        assert heard(again) == heard(paused)
        assert again["interrupts"]
    chunks = [chunk async for chunk in app.astream("hi", config(run_id="r"))]
    assert [(chunk.type, chunk.node) for chunk in chunks] == [("interrupt", "ask"), ("end", "ask")]
    assert worker.ran == ["speak", "ask"]
    for other in ({}, {"run_id": "other"}):
        with pytest.raises(PendingInterruptError):
            await app.ainvoke("hi", config(**other))


@pytest.mark.parametrize("ids", [("r", "r"), ("r", "s")])
async def test_the_answer_to_a_resumption_begins_behind_the_pause(
    backend: Backend, ids: tuple[str, str]
) -> None:
    worker = Worker()
    names = ("speak", "ask", "edit")
    mine: list[Config] = [config(run_id=one) for one in ids]
    await worker.on(backend.make(), *names).ainvoke("hi", mine[0])
    with pytest.raises(CrashError):
        await worker.on(dying_after(2, backend.make()), *names).ainvoke({"resume": "y"}, mine[1])
    result = await worker.on(backend.make(), *names).ainvoke({"resume": "y"}, mine[1])
    texts = ["assistant: you said y", "assistant: 1, edited", "assistant: 3"]
    assert said(result["messages"]) == texts
    again = await worker.on(backend.make(), *names).ainvoke({"resume": "y"}, mine[1])
    assert heard(again) == heard(result)
    assert worker.ran == ["speak", "ask", "ask", "edit", "edit"]


async def test_the_answer_to_a_run_of_very_many_messages_is_its_end(
    checkpointer: Checkpointer,
) -> None:
    def talk() -> list[str]:
        return [str(number) for number in range(600)]

    def go_on(state: AgentState) -> list[str]:
        return [str(number) for number in range(600, 1200)]

    app = chain(talk, go_on, checkpointer=checkpointer)
    first = await app.ainvoke("hi", config(run_id="r"))
    again = await app.ainvoke("hi", config(run_id="r"))
    assert len(first["messages"]) == 1200
    assert again["messages"] == first["messages"][-1000:]


async def test_a_node_knows_its_run_by_an_id_that_is_the_same_on_every_attempt(
    checkpointer: Checkpointer,
) -> None:
    seen: list[str] = []

    def node(config: Config) -> str:
        seen.append(config["run_id"])
        if len(seen) == 1:
            raise RuntimeError("no")
        return "ok"

    app = chain(node, checkpointer=checkpointer)
    with pytest.raises(NodeError):
        await app.ainvoke("hi", config())
    await app.ainvoke(None, config(run_id="another"))
    await app.ainvoke("again", config(run_id="mine"))
    assert seen[0] == seen[1]
    assert seen[2] == "mine"


@pytest.mark.parametrize("how", ["async", "sync", "stream", "executor"])
@pytest.mark.parametrize("given", [{}, {"run_id": "mine"}])
async def test_a_graph_inside_a_node_is_none_of_the_run_around_it(
    checkpointer: Checkpointer, how: str, given: Config
) -> None:
    asked: list[str] = []

    def reply(state: AgentState) -> str:
        asked.append(state.context[-1].text())
        return f"to {asked[-1]}"

    inner = chain(reply)

    async def node(config: Config) -> list[Any]:
        said = []
        for text in ("one", "two"):
            if how == "stream":
                chunks = [chunk async for chunk in inner.astream(text, config)]
                said += [chunk.message for chunk in chunks if chunk.message]
            else:
                said += (await inner.ainvoke(text, config))["messages"]
        return said

    async def in_executor(config: Config) -> list[Any]:
        loop, said = asyncio.get_running_loop(), []
        for text in ("one", "two"):
            result = await loop.run_in_executor(None, inner.invoke, text, config)
            said += result["messages"]
        return said

    def sync_node(config: Config) -> list[Any]:
        return [m for text in ("one", "two") for m in inner.invoke(text, config)["messages"]]

    nodes = {"sync": sync_node, "executor": in_executor}
    outer = chain(nodes.get(how, node), checkpointer=checkpointer)
    result = await outer.ainvoke("hi", config(**given))
    assert said(result["messages"]) == ["assistant: to one", "assistant: to two"]
    assert asked == ["one", "two"]


async def test_a_graph_inside_a_node_is_repeated_under_an_id_that_it_is_given(
    checkpointer: Checkpointer,
) -> None:
    asked: list[str] = []

    def reply() -> str:
        asked.append("reply")
        return "once"

    inner = chain(reply)

    async def node(config: Config) -> str:
        own = {**config, "run_id": f"{config['run_id']}:inner"}
        return str((await inner.ainvoke("hi", own))["messages"][0].text())

    async def again(config: Config) -> str:
        return await node(config)

    result = await chain(node, again, checkpointer=checkpointer).ainvoke("hi", config())
    assert said(result["messages"]) == ["assistant: once"] * 2
    assert asked == ["reply"]


@pytest.mark.parametrize("named", [True, False])
async def test_an_answer_that_is_sent_again_is_none_to_the_next_question(
    checkpointer: Checkpointer, named: bool
) -> None:
    done: list[Any] = []

    def pay() -> None:
        done.append((interrupt("pay 1 EUR?"), interrupt("delete all?")))

    app = chain(pay, checkpointer=checkpointer)
    (question,) = (await app.ainvoke("hi", config(run_id="r1")))["interrupts"]
    given = {"resume": {question.id: "yes"} if named else "yes"}
    first = await app.ainvoke(given, config(run_id="r2"))
    again = await app.ainvoke(given, config(run_id="r2"))
    assert [one.value for one in first["interrupts"]] == ["delete all?"]
    assert again["interrupts"] == first["interrupts"]
    assert done == []
    if named:
        with pytest.raises(InputError, match="questions that do not wait"):
            await app.ainvoke(given, config())
    await app.ainvoke({"resume": {first["interrupts"][0].id: "no"}}, config(run_id="r2"))
    assert done == [("yes", "no")]
