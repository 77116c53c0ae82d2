"""ReactAgent: a model that calls tools until it has an answer."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, overload

from tenxgraph._other_names import OtherNames
from tenxgraph.core.graph import END, Agent, CompiledGraph, StateGraph, ToolNode
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.checkpointer import BaseCheckpointer
from tenxgraph.storage.store import BaseStore, MemoryConfig

__all__ = ["ReactAgent"]


class ReactAgent(OtherNames, Generic[StateT]):
    """A graph of two nodes, `model` and `tools`: the model is asked until it calls no more tools.

    Args:
        model: the name of a model, a function `(messages, tools)`, or a `ChatModel`; see `Agent`.
        tools: functions, objects with `__call__`, or what `@tool` makes: a list, or a single one;
            or a `ToolNode`.
        system_prompt: a string, or a list of strings, messages or OpenAI dicts.
        memory: the long-term memory.
        state: the class of the state, or an instance whose values new threads begin with.
        agent_options: `output_schema`, `context_window`, `base_url`, `api_key` and the options of
            the model; see `Agent`.

    Raises:
        GraphError: something of it cannot be used; says what.
        ImportError: the model is a name, and the package `openai` is not installed.
    """

    @overload
    def __init__(
        self: "ReactAgent[AgentState]",
        model: Any,
        tools: Iterable[Callable[..., Any]] | Callable[..., Any] | ToolNode | None = None,
        system_prompt: str | Iterable[Any] | None = None,
        memory: MemoryConfig | None = None,
        state: None = None,
        **agent_options: Any,
    ) -> None: ...

    @overload
    def __init__(
        self,
        model: Any,
        tools: Iterable[Callable[..., Any]] | Callable[..., Any] | ToolNode | None = None,
        system_prompt: str | Iterable[Any] | None = None,
        memory: MemoryConfig | None = None,
        *,
        state: type[StateT] | StateT,
        **agent_options: Any,
    ) -> None: ...

    def __init__(
        self,
        model: Any,
        tools: Iterable[Callable[..., Any]] | Callable[..., Any] | ToolNode | None = None,
        system_prompt: str | Iterable[Any] | None = None,
        memory: MemoryConfig | None = None,
        state: Any = None,
        **agent_options: Any,
    ) -> None:
        tool_node = tools if isinstance(tools, ToolNode) else ToolNode(tools) if tools else None
        self.agent = Agent(model, tool_node, system_prompt, memory, **agent_options)
        graph: StateGraph[Any] = StateGraph(AgentState if state is None else state)
        graph.add_node("model", self.agent).set_entry_point("model")
        # Also where there are no tools: a model may call one all the same, and is told so.
        graph.add_node("tools", self.agent.tool_node or ToolNode()).add_edge("tools", "model")
        graph.add_conditional_edges("model", _calls_tools, {True: "tools", False: END})
        self._graph = graph

    def compile(
        self,
        checkpointer: BaseCheckpointer[Any] | None = None,
        store: BaseStore | None = None,
        interrupt_before: Iterable[str] | None = None,
        interrupt_after: Iterable[str] | None = None,
    ) -> CompiledGraph[StateT]:
        """Make the agent ready to run.

        Args:
            checkpointer: where threads are kept; without one, in this process alone, and they are
                gone when it ends.
            store: the long-term memory, where `memory` names none.
            interrupt_before: pause before `"model"` or `"tools"`: with `["tools"]`, somebody is
                asked before any tool runs.
            interrupt_after: pause after `"model"` or `"tools"`.
        """
        return self._graph.compile(checkpointer, store, interrupt_before, interrupt_after)


def _calls_tools(state: AgentState) -> bool:
    last = state.context[-1] if state.context else None
    return last is not None and bool(last.tool_calls)
