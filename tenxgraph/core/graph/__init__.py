"""Graphs of nodes over a state, run on threads that outlive the process."""

from tenxgraph import _other_names
from tenxgraph.core.graph.agent import Agent
from tenxgraph.core.graph.builder import StateGraph
from tenxgraph.core.graph.chunks import Chunk
from tenxgraph.core.graph.command import Command
from tenxgraph.core.graph.compiled import CompiledGraph
from tenxgraph.core.graph.context_window import ContextWindow
from tenxgraph.core.graph.edges import END, START
from tenxgraph.core.graph.interrupts import interrupt
from tenxgraph.core.graph.run_result import RunResult
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.graph.tools import tool

__all__ = [
    "END",
    "START",
    "Agent",
    "Chunk",
    "Command",
    "CompiledGraph",
    "ContextWindow",
    "RunResult",
    "StateGraph",
    "ToolNode",
    "interrupt",
    "tool",
]

_other_names.explain_imports(__name__)
