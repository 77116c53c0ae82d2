"""The memory of AI agents: threads, states, messages and tool results that are never lost."""

__version__ = "0.1.0"
__all__ = ["__version__"]
