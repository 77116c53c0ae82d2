"""Tools that are ready to be given to an agent."""

from tenxgraph.storage.store.tools import (
    agent_memory_tool,
    memory_tool,
    memory_tools,
    user_memory_tool,
)

__all__ = ["agent_memory_tool", "memory_tool", "memory_tools", "user_memory_tool"]
