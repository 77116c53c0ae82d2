"""The memory of AI agents: threads, states, messages and tool results that are never lost.

What most programs need can be imported from here. A name is loaded when it is first used, so that
`import tenxgraph` costs next to nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenxgraph.core.exceptions import StaleStateError
    from tenxgraph.core.graph import (
        END,
        START,
        Agent,
        Command,
        ContextWindow,
        StateGraph,
        interrupt,
        tool,
    )
    from tenxgraph.core.state import AgentState, Message, ToolCall
    from tenxgraph.prebuilt.agent import ReactAgent
    from tenxgraph.storage.checkpointer import create_checkpointer

__version__ = "0.1.0"
__all__ = [
    "END",
    "START",
    "Agent",
    "AgentState",
    "Command",
    "ContextWindow",
    "Message",
    "ReactAgent",
    "StaleStateError",
    "StateGraph",
    "ToolCall",
    "__version__",
    "create_checkpointer",
    "interrupt",
    "tool",
]

_HOMES = {
    "END": "tenxgraph.core.graph",
    "START": "tenxgraph.core.graph",
    "Agent": "tenxgraph.core.graph",
    "AgentState": "tenxgraph.core.state",
    "Command": "tenxgraph.core.graph",
    "ContextWindow": "tenxgraph.core.graph",
    "Message": "tenxgraph.core.state",
    "ReactAgent": "tenxgraph.prebuilt.agent",
    "StaleStateError": "tenxgraph.core.exceptions",
    "StateGraph": "tenxgraph.core.graph",
    "ToolCall": "tenxgraph.core.state",
    "create_checkpointer": "tenxgraph.storage.checkpointer",
    "interrupt": "tenxgraph.core.graph",
    "tool": "tenxgraph.core.graph",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from tenxgraph._other_names import import_remedy

        if error := import_remedy(name, __name__):
            raise error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next look finds it at once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _refuse_mixed_installation() -> None:
    """Refuse to run beside files of the package `10xgraph`, which has the same import name.

    pip unpacks both into one folder. Its packages then hide modules of ours, and imports fail in
    places that have nothing to do with the cause.
    """
    if os.path.isdir(os.path.join(os.path.dirname(__file__), "core", "exceptions")):
        raise ImportError(
            "The packages `tenxgraph` and `10xgraph` are installed in one environment, and both "
            "are imported as `tenxgraph`. Run `pip uninstall tenxgraph 10xgraph`, then install "
            "the one that you need. To take over the data of 10xgraph it need not be installed."
        )


_refuse_mixed_installation()
