"""What the tests of the run loop share: configs, small graphs, and an eye on what is written."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tenxgraph.core.graph import CompiledGraph, StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import BaseCheckpointer

Config = dict[str, Any]

on_durable = pytest.mark.parametrize("backend", ["memory", "sqlite", "postgres"], indirect=True)
"""Runs a module's tests on these backends; the others differ in what a run does not see."""

also_behind_redis = pytest.mark.parametrize(
    "backend", ["memory", "sqlite", "postgres", "postgres+redis"], indirect=True
)


def config(thread_id: str = "t", **more: Any) -> Config:
    """A config of the one user there is."""
    return {"thread_id": thread_id, "user_id": "u", **more}


def said(messages: Sequence[Message] | AgentState | None) -> list[str]:
    """Messages as `role: text`."""
    if messages is None:
        return []
    context = messages.context if isinstance(messages, AgentState) else messages
    return [f"{one.role}: {one.text()}" for one in context]


def chain(
    *nodes: Callable[..., Any], state: Any = None, **compile_options: Any
) -> CompiledGraph[Any]:
    """A graph of nodes one after the other, each under its function's name."""
    graph: StateGraph[Any] = StateGraph() if state is None else StateGraph(state)
    for node in nodes:
        graph.add_node(node)
    names = [node.__name__ for node in nodes]
    graph.set_entry_point(names[0])
    for source, target in itertools.pairwise(names):
        graph.add_edge(source, target)
    return graph.compile(**compile_options)


class Writes:
    """Records what a checkpointer is asked to write while it does so."""

    def __init__(self, checkpointer: BaseCheckpointer[Any]) -> None:
        self.states: list[AgentState] = []
        self.order: list[str] = []
        self.before: Callable[[AgentState], None] | None = None
        """Called before each durable write; may raise instead of it."""
        put, refresh = checkpointer.aput_checkpoint, checkpointer.aput_state_cache

        async def aput_checkpoint(config: Any, state: Any, *more: Any, **named: Any) -> Any:
            if self.before is not None:
                self.before(state)
            written = await put(config, state, *more, **named)
            self.states.append(state.model_copy())
            self.order.append("durable")
            return written

        async def aput_state_cache(config: Any, state: Any) -> None:
            self.order.append("cache")
            await refresh(config, state)

        checkpointer.aput_checkpoint = aput_checkpoint  # type: ignore[method-assign]
        checkpointer.aput_state_cache = aput_state_cache  # type: ignore[method-assign]

    def steps(self) -> list[tuple[str, str]]:
        """Where the run stood at each write: its node and its status."""
        metas = [state.execution_meta for state in self.states]
        return [(meta.current_node, meta.status) for meta in metas]
