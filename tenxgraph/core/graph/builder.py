"""StateGraph: nodes and edges, checked when it is compiled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, Self, overload

from tenxgraph._other_names import OtherNames
from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.compiled import CompiledGraph
from tenxgraph.core.graph.edges import END, START, ConditionalEdge, Edge
from tenxgraph.core.graph.node import Node, as_name
from tenxgraph.core.graph.persistence import as_checkpointer, as_store
from tenxgraph.core.graph.plan import Plan
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.checkpointer import BaseCheckpointer

__all__ = ["StateGraph"]


class StateGraph(OtherNames, Generic[StateT]):
    """A graph in the making.

    Args:
        state: the class of the state, or an instance whose values new threads begin with.
    """

    @overload
    def __init__(self: "StateGraph[AgentState]", state: None = None) -> None: ...

    @overload
    def __init__(self, state: type[StateT] | StateT) -> None: ...

    def __init__(self, state: Any = None) -> None:
        first: Any = AgentState() if state is None else state
        try:
            self._initial: StateT = first() if isinstance(first, type) else first
        except ValueError as error:
            message = (
                f"{first.__name__} has fields without defaults: pass an instance, "
                f"StateGraph({first.__name__}(...)), for new threads to begin with."
            )
            raise GraphError(message) from error
        if not isinstance(self._initial, AgentState):
            raise GraphError("`state` must be a subclass of AgentState, or an instance of one.")
        self._nodes: dict[str, Node] = {}
        self._edges: dict[str, Edge | ConditionalEdge] = {}

    def add_node(
        self, name: str | Callable[..., Any], function: Callable[..., Any] | None = None
    ) -> Self:
        """Add a node; a function alone is added under its own name.

        Raises:
            GraphError: the name is taken or reserved, or the function asks for the unknown.
        """
        name = as_name(name)
        if not isinstance(name, str) and function is None:
            function, name = name, getattr(name, "__name__", type(name).__name__)
        if not isinstance(name, str) or not name or name in (START, END):
            raise GraphError(f"{name!r} cannot be the name of a node.")
        if name in self._nodes:
            raise GraphError(f"There is a node {name!r} already.")
        if function is None:
            raise GraphError(f"Node {name!r} has no function.")
        self._nodes[name] = Node(name, function)
        return self

    def add_edge(self, source: str, target: str) -> Self:
        """Go from `source`, or `START`, to `target`, or `END`."""
        return self._connect(as_name(source), Edge(target))

    def add_conditional_edges(
        self,
        source: str,
        condition: Callable[..., Any],
        path_map: Mapping[Any, str] | Sequence[str] | None = None,
    ) -> Self:
        """Go from `source` to where `condition` says.

        Args:
            source: the name of a node.
            condition: a function of what a node may ask for.
            path_map: the nodes its answers mean; without it, it answers with a node's name.
        """
        source = as_name(source)
        return self._connect(source, ConditionalEdge(source, condition, path_map))

    def set_entry_point(self, name: str) -> Self:
        """Begin with this node: `add_edge(START, name)`."""
        return self.add_edge(START, name)

    def compile(
        self,
        checkpointer: BaseCheckpointer[Any] | None = None,
        store: Any = None,
        interrupt_before: Iterable[str] | None = None,
        interrupt_after: Iterable[str] | None = None,
    ) -> CompiledGraph[StateT]:
        """Make the graph ready to run.

        Args:
            checkpointer: where threads are kept; without one, in this process alone, and they are
                gone when it ends.
            store: the long-term memory that nodes and tools may ask for.
            interrupt_before: nodes before which a run pauses.
            interrupt_after: nodes after which a run pauses.

        Raises:
            GraphError: there is no entry point, or a name that no node has; or the checkpointer or
                store is a class, a path or something else that is none.
        """
        plan = Plan(
            initial=self._initial,
            nodes=dict(self._nodes),
            edges=dict(self._edges),
            interrupt_before=_names(interrupt_before),
            interrupt_after=_names(interrupt_after),
        )
        plan.check()
        return CompiledGraph(plan, as_checkpointer(checkpointer), as_store(store))

    def _connect(self, source: str, edge: Edge | ConditionalEdge) -> Self:
        if source in self._edges:
            message = (
                f"There is an edge from {source!r} already; a run is at one node at a time. Use "
                "`add_conditional_edges` to choose among several."
            )
            raise GraphError(message)
        self._edges[source] = edge
        return self


def _names(given: str | Enum | Iterable[str] | None) -> frozenset[str]:
    """Return the names, of one alone as well: its letters would be taken for names."""
    if isinstance(given, str | Enum):
        given = (as_name(given),)
    return frozenset(map(as_name, given or ()))
