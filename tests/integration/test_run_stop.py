"""Stops: from wherever they come, the node has time to tidy up."""

import asyncio
import threading
from typing import Any

import pytest
from backends import Backend, Checkpointer
from graphs import chain, config, on_durable

pytestmark = on_durable

# Looks for a stop come every 0.05 s at first.
OFTEN = config(lease_timeout=0.6)


@pytest.mark.parametrize("by", ["its own graph", "another process", "both, and again"])
async def test_a_node_that_is_stopped_tidies_up_to_the_end(
    checkpointer: Checkpointer, backend: Backend, by: str
) -> None:
    reached = asyncio.Event()
    tidied: list[str] = []

    async def work() -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            for part in ("a", "b", "c"):
                await asyncio.sleep(0.2)
                tidied.append(part)

    app = chain(work, checkpointer=checkpointer)
    elsewhere = chain(work, checkpointer=backend.make())
    running = asyncio.create_task(app.ainvoke("hi", OFTEN))
    await reached.wait()
    if by != "another process":
        await app.astop(OFTEN)
    if by != "its own graph":
        await elsewhere.astop(OFTEN)
    if by == "both, and again":
        await asyncio.sleep(0.1)
        await app.astop(OFTEN)
    result = await asyncio.wait_for(running, 10)
    assert tidied == ["a", "b", "c"]
    assert result["state"].execution_meta.status == "stopped"


@pytest.mark.parametrize("how", ["invoke", "stream", "a thread of its own"])
async def test_closing_a_graph_stops_its_runs_before_it_closes_anything(
    checkpointer: Checkpointer, how: str
) -> None:
    reached = threading.Event()
    tidied: list[bool] = []
    closed: list[str] = []
    close = checkpointer.aclose

    async def work() -> None:
        reached.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            tidied.append(not closed)

    async def watched() -> None:
        closed.append("checkpointer")
        await close()

    checkpointer.aclose = watched  # type: ignore[method-assign]
    app = chain(work, checkpointer=checkpointer)

    async def listen() -> None:
        async for _ in app.astream("hi", config()):
            pass

    match how:
        case "invoke":
            running: asyncio.Task[Any] = asyncio.create_task(app.ainvoke("hi", config()))
        case "stream":
            running = asyncio.create_task(listen())
        case _:
            running = asyncio.create_task(asyncio.to_thread(app.invoke, "hi", config()))
    await asyncio.to_thread(reached.wait)
    await app.aclose()
    await running
    assert tidied == [True]
    state = await checkpointer.aget_state(config())
    assert state is not None
    assert state.execution_meta.status == "stopped"


async def test_a_node_may_close_its_own_graph(checkpointer: Checkpointer) -> None:
    closed: list[bool] = []

    async def work() -> str:
        await app.aclose()
        closed.append(True)
        return "still there"

    app = chain(work, checkpointer=checkpointer)
    result = await app.ainvoke("hi", config())
    assert closed == [True]
    assert result["messages"][0].text() == "still there"


async def test_a_sync_close_in_a_running_loop_comes_to_its_end(checkpointer: Checkpointer) -> None:
    def work() -> str:
        return "ok"

    app = chain(work, checkpointer=checkpointer)
    await app.ainvoke("hi", config())
    await checkpointer.aget_state(config())
    app.close()
    assert await checkpointer.aget_state(config()) is not None
