"""Two graphs in one process."""

import asyncio
from typing import Any

from graphs import chain, config, said

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import InMemoryCheckpointer


async def test_two_graphs_in_one_process_never_see_each_other() -> None:
    class Mine(AgentState):
        secret: str = ""

    def remember(state: Mine) -> dict[str, Any]:
        return {"secret": state.context[-1].text()}

    def count(state: AgentState) -> str:
        assert not hasattr(state, "secret")
        return str(len(state.context))

    one = chain(remember, state=Mine, checkpointer=InMemoryCheckpointer(), store="one")
    other = chain(count, checkpointer=InMemoryCheckpointer(), store="other")
    results = await asyncio.gather(
        *(app.ainvoke("hi", config()) for _ in range(3) for app in (one, other)),
        return_exceptions=True,
    )
    assert [result for result in results if isinstance(result, dict)]
    assert (await one.ainvoke("mine", config()))["state"].secret == "mine"
    theirs = await other.aget_state(config())
    assert theirs is not None
    assert "mine" not in " ".join(said(theirs))
    assert (one.store, other.store) == ("one", "other")
