"""What a run tells while it goes on, and what becomes of it when nobody listens any more."""

import asyncio
import contextlib
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import chain, config, on_durable, said

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import Chunk, interrupt
from tenxgraph.core.state import ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel

pytestmark = on_durable


def add(a: int, b: int) -> int:
    return a + b


ADD = ToolCall(id="c", name="add", args={"a": 1, "b": 2})


def told(chunks: list[Chunk]) -> list[str]:
    return [
        f"{one.type} {one.node}: {one.text or (one.message.text() if one.message else '')}".strip()
        for one in chunks
    ]


async def test_chunks_come_in_the_order_in_which_things_happen(checkpointer: Checkpointer) -> None:
    app = ReactAgent(ScriptedModel([ADD, "It is 3."]), [add]).compile(checkpointer)
    chunks = [chunk async for chunk in app.astream("1 + 2?", config())]
    assert told(chunks) == [
        "message model:",
        "update model:",
        "message tools: 3",
        "update tools:",
        "token model: It",
        "token model: is",
        "token model: 3.",
        "message model: It is 3.",
        "update model:",
        "end model:",
    ]
    assert chunks[-1].data == "completed"
    assert "".join(one.text for one in chunks if one.type == "token") == "It is 3."


async def test_an_update_is_told_when_it_is_stored(checkpointer: Checkpointer) -> None:
    app = chain(_one, _two, checkpointer=checkpointer)
    seen = []
    async for chunk in app.astream("go", config()):
        if chunk.type == "update":
            seen.append(said(await app.aget_state(config())))
    assert [texts[-1] for texts in seen][-1] == "assistant: 2"
    assert "assistant: 1" in seen[0]


def _one() -> str:
    return "1"


def _two() -> str:
    return "2"


async def test_tokens_come_while_the_model_is_still_at_it(checkpointer: Checkpointer) -> None:
    heard = asyncio.Event()

    async def node(emit: Any) -> str:
        emit(Chunk(type="token", text="first"))
        await asyncio.wait_for(heard.wait(), 5)
        return "first and last"

    app = chain(node, checkpointer=checkpointer)
    async for chunk in app.astream("go", config()):
        if chunk.type == "token":
            assert (chunk.text, chunk.node) == ("first", "node")
            heard.set()


async def test_an_error_is_told_and_then_raised(checkpointer: Checkpointer) -> None:
    def node() -> None:
        raise RuntimeError("no")

    app = chain(node, checkpointer=checkpointer)
    chunks = app.astream("go", config())
    first = await anext(chunks)
    assert (first.type, first.node) == ("error", "node")
    assert "RuntimeError: no" in first.text
    with pytest.raises(NodeError):
        await anext(chunks)


async def test_a_pause_is_told_with_its_questions(checkpointer: Checkpointer) -> None:
    def node() -> str:
        return str(interrupt("sure?"))

    app = chain(node, checkpointer=checkpointer)
    chunks = [chunk async for chunk in app.astream("go", config())]
    assert [one.type for one in chunks] == ["interrupt", "end"]
    assert [one.value for one in chunks[0].interrupts] == ["sure?"]
    assert chunks[1].data == "interrupted"
    resumed = [chunk async for chunk in app.astream({"resume": "yes"}, config())]
    assert told(resumed)[0] == "message node: yes"


@pytest.mark.parametrize("stop_after", range(1, 10))
async def test_a_consumer_that_goes_away_leaves_a_thread_that_goes_on(
    backend: Backend, stop_after: int
) -> None:
    ran: list[int] = []

    def count(n: int) -> int:
        ran.append(n)
        return n

    def script(messages: Any, _tools: Any) -> Any:
        done = sum(one.role == "tool" for one in messages)
        if done == 2:
            return "all done"
        return ToolCall(id="same", name="count", args={"n": done})

    app = ReactAgent(ScriptedModel(script), [count]).compile(backend.make())
    heard = 0
    async with contextlib.aclosing(app.astream("go", config())) as chunks:
        async for _ in chunks:
            heard += 1
            if heard == stop_after:
                break
    state = await app.aget_state(config())
    assert state is not None
    assert state.execution_meta.status in ("stopped", "completed")
    if state.execution_meta.status == "stopped":
        state = (await app.ainvoke(None, config()))["state"]
    assert said(state) == [
        "user: go",
        "assistant: ",
        "tool: 0",
        "assistant: ",
        "tool: 1",
        "assistant: all done",
    ]
    assert ran == [0, 1]


async def test_a_stream_and_an_invoke_do_the_same(checkpointer: Checkpointer) -> None:
    results = []
    for thread in ("streamed", "invoked"):
        app = ReactAgent(ScriptedModel([ADD, "3"]), [add]).compile(checkpointer)
        if thread == "streamed":
            async for _ in app.astream("go", config(thread)):
                pass
        else:
            await app.ainvoke("go", config(thread))
        rows = await checkpointer.alist_tool_results(config(thread))
        versions = await checkpointer.alist_states(config(thread))
        results.append(
            (
                said(await app.aget_state(config(thread))),
                [one.status for one in rows],
                len(versions),
            )
        )
    assert results[0] == results[1]


async def test_whoever_waits_for_the_answer_can_hear_the_chunks_too(
    checkpointer: Checkpointer,
) -> None:
    chunks: list[Chunk] = []
    app = ReactAgent(ScriptedModel([ADD, "It is 3."] * 2), [add]).compile(checkpointer)
    output = await app.ainvoke("1 + 2?", config(), emit=chunks.append)
    streamed = [chunk async for chunk in app.astream("again", config("other"))]
    assert [one.message for one in chunks if one.message] == output["messages"]
    assert [one.type for one in chunks] == [one.type for one in streamed]


async def test_a_listener_that_fails_changes_nothing_of_the_run(
    checkpointer: Checkpointer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(chunk: Chunk) -> None:
        raise RuntimeError("reader broke")

    def fails() -> None:
        raise ValueError("the node's own")

    app = chain(fails, checkpointer=checkpointer)
    with pytest.raises(NodeError, match="the node's own"):
        await app.ainvoke("hi", config(), emit=broken)
    state = await checkpointer.aget_state(config())
    assert state is not None
    assert state.execution_meta.status == "error"
    assert "reader broke" in caplog.text
