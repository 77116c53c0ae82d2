"""Stops: from wherever they come, the node has time to tidy up."""

import asyncio

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
