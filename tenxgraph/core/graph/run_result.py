"""RunResult: the dict that a run returns."""

from typing import Generic, TypedDict

from tenxgraph.core.state import Interrupt, Message, TokenUsages
from tenxgraph.core.state.agent_state import StateT

__all__ = ["RunResult"]


class RunResult(TypedDict, Generic[StateT]):
    """What `invoke` returns: a plain dict."""

    messages: list[Message]
    """The messages that the run has added after its input."""
    state: StateT
    """The state as the run left it, of the graph's own class."""
    interrupts: list[Interrupt]
    """Questions that wait for an answer; empty unless the run is paused."""
    usage: TokenUsages
    """The tokens of all model calls of the run."""
    thread_id: str
    run_id: str
