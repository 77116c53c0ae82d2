"""Agents that are ready to be compiled."""

from tenxgraph import _other_names
from tenxgraph.prebuilt.agent.react import ReactAgent

__all__ = ["ReactAgent"]

_other_names.explain_imports(__name__)
