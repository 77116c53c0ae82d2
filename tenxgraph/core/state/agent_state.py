"""AgentState: what a thread remembers. Subclass it to remember more."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeVar

from tenxgraph.core.state.message import Message
from tenxgraph.core.state.reducers import add_messages

__all__ = ["AgentState", "ExecutionState", "Interrupt", "RunStatus", "StateT"]

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
    """Of the call that began the run."""
    calls: dict[str, int] = Field(default_factory=dict)
    """Every call of the run, by its `run_id`, and where in `added` its answer begins."""
    resumed: list[str] = Field(default_factory=list)
    """Those of the calls that have brought an answer to a question."""
    added: list[str] = Field(default_factory=list)
    """The ids of the messages that the run has added after its input."""
    interrupts: list[Interrupt] = Field(default_factory=list)
    """Questions that wait for answers."""
    interrupt_token: str = ""
    """Random, and new for every step: part of the ids of this step's interrupts, so that the answer
    to one never reaches another. Empty in states of a version that had none, and after the run."""
    answers: dict[str, Any] = Field(default_factory=dict)
    """Answers that the current node has not used up yet, by the id of the question."""
    error: str | None = None


class StoredState:
    """A state as it was last stored: what need not be looked at, or encoded, again."""

    __slots__ = ("fields", "generation", "messages", "refs", "version")

    def __init__(
        self,
        *,
        generation: UUID,
        version: int,
        fields: str,
        messages: list[Message],
        refs: list[list[int]],
    ) -> None:
        self.generation = generation
        self.version = version
        self.fields = fields
        """The state without its context, as it was encoded."""
        self.messages = messages
        """The context; its members say by identity whether anything has changed."""
        self.refs = refs
        """The context by message number."""

    def __deepcopy__(self, _memo: Any) -> "StoredState":
        return self  # never changed once made


class AgentState(BaseModel):
    """The state of one thread. Fields of a newer version of a class are kept as they came."""

    model_config = ConfigDict(extra="allow", validate_assignment=True)

    context: Annotated[list[Message], add_messages] = Field(default_factory=list)
    """The messages that the model sees, in order."""
    context_summary: str | None = None
    """What was said before the messages that the model is sent, in short. It is sent as well."""
    context_summary_until: str | None = None
    """The id of the last message that a `ContextWindow` has put into the summary."""
    execution_meta: ExecutionState = Field(default_factory=ExecutionState)

    # No private attribute: two states are equal whether or not they are stored.
    __slots__ = ("_stored",)

    if TYPE_CHECKING:
        # As a plain annotation it would be an argument of `__init__` to a type checker.
        _stored: ClassVar[StoredState]

    def __copy__(self) -> Self:
        """A copy knows what is stored of it, as the original does."""
        return self._carry_stored(super().__copy__())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """A copy knows what is stored of it, as the original does."""
        return self._carry_stored(super().__deepcopy__(memo))

    def _carry_stored(self, copied: Self) -> Self:
        stored = stored_of(self)
        if stored is not None:
            remember_stored(copied, stored)
        return copied


StateT = TypeVar("StateT", bound=AgentState, default=AgentState)
"""The class of a graph's or checkpointer's state; `AgentState` where nothing else is said."""


def stored_of(state: AgentState) -> StoredState | None:
    """What is known of the state as it was last stored."""
    try:
        return state._stored
    except AttributeError:
        return None


def remember_stored(state: AgentState, stored: StoredState) -> None:
    """Note that the state has been stored, or read."""
    object.__setattr__(state, "_stored", stored)
