"""Plan: a compiled graph's nodes and ways, without anything that runs."""

from dataclasses import dataclass
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.agent import Agent
from tenxgraph.core.graph.edges import END, START, ConditionalEdge, Edge
from tenxgraph.core.graph.node import Node
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.state import AgentState

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run follows."""

    initial: AgentState
    nodes: dict[str, Node]
    edges: dict[str, Edge | ConditionalEdge]
    interrupt_before: frozenset[str]
    interrupt_after: frozenset[str]

    def check(self) -> None:
        """Refuse what could only fail at run time.

        Raises:
            GraphError: no entry point, or a name that no node has.
        """
        if START not in self.edges:
            raise GraphError("The graph has no entry point: call `set_entry_point(name)`.")
        for source, edge in self.edges.items():
            if source != START:
                self._check_name(source, "An edge begins at")
            for target in edge.targets or ():
                if target != END:
                    self._check_name(target, f"The edge from {source!r} leads to")
        for name in sorted(self.interrupt_before | self.interrupt_after):
            self._check_name(name, "An interrupt is set at")

    def node(self, name: str) -> Node:
        """The node of that name.

        Raises:
            GraphError: there is none.
        """
        self._check_name(name, "The run is to go to")
        return self.nodes[name]

    def stores(self) -> dict[str, Any]:
        """The long-term memories that agents and tools were given, beside the graph's own.

        By names that are the same in every process that makes this graph.
        """
        named: dict[str, Any] = {}
        for node in self.nodes.values():
            if isinstance(node.function, Agent):
                own = enumerate(node.function.stores)
                named |= {f"{node.name} memory {number}": store for number, store in own}
            elif isinstance(node.function, ToolNode):
                tools = node.function.tools
                named |= {f"{node.name} tool {one.name}": one.store for one in tools}
        return {name: store for name, store in named.items() if store is not None}

    async def after(self, name: str, given: dict[str, Any]) -> str:
        """The name of the node that runs after another; `END` where nothing leads on."""
        edge = self.edges.get(name)
        return END if edge is None else await edge.next(given)

    def mermaid(self) -> str:
        """The graph as Mermaid text."""
        lines = ["flowchart TD", f"    {START}([start])", f"    {END}([end])"]
        lines += [f"    {_id(name)}[{name}]" for name in self.nodes]
        for source, edge in self.edges.items():
            arrow = "-.->" if isinstance(edge, ConditionalEdge) else "-->"
            targets = (*self.nodes, END) if edge.targets is None else edge.targets
            lines += [f"    {_id(source)} {arrow} {_id(target)}" for target in targets]
        lines += [f"    {_id(name)} --> {END}" for name in self.nodes if name not in self.edges]
        return "\n".join(lines)

    def _check_name(self, name: str, said: str) -> None:
        if name not in self.nodes:
            known = ", ".join(map(repr, self.nodes)) or "none"
            raise GraphError(f"{said} {name!r}, but there is no such node. There are: {known}.")


def _id(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)
