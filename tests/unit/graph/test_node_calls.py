"""Calls of nodes: a stop or the end of its time reaches a node, whatever else does not answer."""

import asyncio
from typing import Any

import pytest
from graphs import chain, config, said

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import InMemoryCheckpointer

# Looks for a stop come every 0.05 s at first.
OFTEN = config(lease_timeout=0.6)


async def test_a_node_that_does_not_let_itself_be_stopped_ends_and_the_run_with_it() -> None:
    reached = asyncio.Event()

    async def stubborn() -> str:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
        return "done all the same"

    async def following() -> str:
        return "not reached"

    app = chain(stubborn, following)
    running = asyncio.create_task(app.ainvoke("hi", OFTEN))
    await reached.wait()
    await app.astop(OFTEN)
    result = await asyncio.wait_for(running, 10)
    assert said(result["messages"]) == ["assistant: done all the same"]
    assert result["state"].execution_meta.status == "stopped"


async def test_a_node_that_goes_on_after_a_stop_has_no_longer_than_its_time() -> None:
    reached = asyncio.Event()
    cancelled: list[bool] = []

    async def stubborn() -> None:
        reached.set()
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(True)

    app = chain(stubborn)
    running = asyncio.create_task(app.ainvoke("hi", {**OFTEN, "node_timeout": 1}))
    await reached.wait()
    await app.astop(OFTEN)
    with pytest.raises(NodeError, match="longer than 1 s"):
        await asyncio.wait_for(running, 10)
    assert len(cancelled) == 2, "by the stop and by the end of its time"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_node_ends_in_time_although_nobody_can_say_whether_it_is_to_stop(
    stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, released = asyncio.Event(), asyncio.Event()

    async def black_hole(*_arguments: Any) -> bool:
        asked.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise
        return False

    async def slow() -> str:
        await asked.wait()
        await asyncio.sleep(0.3)
        return "done"

    async def endless() -> None:
        await asyncio.Event().wait()

    checkpointer = InMemoryCheckpointer[AgentState]()
    monkeypatch.setattr(checkpointer, "ais_stop_requested", black_hole)
    monkeypatch.setattr(checkpointer, "arenew_lease", black_hole)
    in_time = chain(slow, checkpointer=checkpointer).ainvoke("hi", OFTEN)
    assert said((await asyncio.wait_for(in_time, 10))["messages"]) == ["assistant: done"]
    too_late = chain(endless, checkpointer=checkpointer).ainvoke("hi", config(node_timeout=1))
    with pytest.raises(NodeError, match="longer than 1 s"):
        await asyncio.wait_for(too_late, 10)
    released.set()
    await asyncio.sleep(0)
