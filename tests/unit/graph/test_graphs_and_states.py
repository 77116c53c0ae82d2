"""Two graphs in one process, and what a graph does with a state."""

import asyncio
from typing import Any

import pytest
from backends import Backend
from graphs import chain, config, said

from tenxgraph.core.graph import END, StateGraph
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

    one = chain(remember, state=Mine, checkpointer=InMemoryCheckpointer(), store=["one"])
    other = chain(count, checkpointer=InMemoryCheckpointer(), store=["other"])
    results = await asyncio.gather(
        *(app.ainvoke("hi", config()) for _ in range(3) for app in (one, other)),
        return_exceptions=True,
    )
    assert [result for result in results if isinstance(result, dict)]
    assert (await one.ainvoke("mine", config()))["state"].secret == "mine"
    theirs = await other.aget_state(config())
    assert theirs is not None
    assert "mine" not in " ".join(said(theirs))
    assert (one.store, other.store) == (["one"], ["other"])


async def test_a_node_costs_no_deep_copy_of_the_state() -> None:
    copied: list[str] = []

    class Watched(AgentState):
        count: int = 0

        def __deepcopy__(self, memo: Any = None) -> Any:
            copied.append("a state")
            return super().__deepcopy__(memo)

    def tick(state: Watched) -> dict[str, Any]:
        return {"count": state.count + 1, "messages": "tick"}

    graph = StateGraph(Watched).add_node("tick", tick).set_entry_point("tick")
    graph.add_conditional_edges("tick", lambda state: END if state.count >= 20 else "tick")
    await graph.compile().ainvoke("go", config())
    assert len(copied) <= 1, "once, where the thread begins"


class Counting(AgentState):
    turns: int = 0


class Titled(AgentState):
    topic: str = "x"


@pytest.mark.parametrize("backend", ["memory", "memory+redis"], indirect=True)
async def test_graphs_of_different_states_share_a_checkpointer(backend: Backend) -> None:
    def count(state: Counting) -> dict[str, Any]:
        return {"turns": state.turns + 1}

    def title(state: Titled) -> dict[str, Any]:
        return {"topic": state.topic + "x"}

    shared = backend.make()
    counting = chain(count, state=Counting, checkpointer=shared)
    titled = chain(title, state=Titled, checkpointer=shared)
    for _ in range(2):
        await counting.ainvoke("hi", config("a"))
        await titled.ainvoke("hi", config("b"))
    one, other = await counting.aget_state(config("a")), await titled.aget_state(config("b"))
    assert isinstance(one, Counting)
    assert one.turns == 2
    assert isinstance(other, Titled)
    assert other.topic == "xxx"
