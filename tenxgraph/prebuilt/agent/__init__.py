"""Agents that are ready to be compiled."""

from tenxgraph.prebuilt.agent.react import ReactAgent

__all__ = ["ReactAgent"]
