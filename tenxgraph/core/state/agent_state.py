"""AgentState: what a thread remembers. Subclass it to remember more."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from tenxgraph.core.state.message import Message
from tenxgraph.core.state.reducers import add_messages

__all__ = ["AgentState", "ExecutionState", "Interrupt", "RunStatus"]

RunStatus = Literal["running", "interrupted", "stopped", "completed", "error"]


class Interrupt(BaseModel):
    """A question that a paused run waits to have answered."""

    model_config = ConfigDict(extra="allow")

    id: str
    node: str = ""
    value: Any = None


class ExecutionState(BaseModel):
    """Where a run stands, so that another process can take it up."""

    model_config = ConfigDict(extra="allow")

    current_node: str = ""
    """The node that runs next, or ran last where the run is over."""
    step: int = 0
    status: RunStatus = "completed"
    run_id: str = ""
    interrupts: list[Interrupt] = Field(default_factory=list)
    error: str | None = None


class StoredContext:
    """The context as it was last stored: what need not be looked at again."""

    __slots__ = ("generation", "messages", "refs")

    def __init__(self, generation: str, messages: list[Message], refs: list[list[int]]) -> None:
        self.generation = generation
        self.messages = messages
        self.refs = refs

    def __deepcopy__(self, _memo: Any) -> "StoredContext":
        return self  # never changed once made


class AgentState(BaseModel):
    """The state of one thread. Fields of a newer version of a class are kept as they came."""

    model_config = ConfigDict(extra="allow", validate_assignment=True)

    context: Annotated[list[Message], add_messages] = Field(default_factory=list)
    """The messages that the model sees, in order."""
    context_summary: str | None = None
    """What was said before the context, in short."""
    execution_meta: ExecutionState = Field(default_factory=ExecutionState)

    _stored_context: StoredContext | None = PrivateAttr(default=None)
