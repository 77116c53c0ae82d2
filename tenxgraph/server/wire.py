"""What goes over the wire: requests as they are checked, answers as they are described."""

from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from tenxgraph.core.state import AgentState, Interrupt, Message, TokenUsages
from tenxgraph.server.authorization import Caller
from tenxgraph.server.fields import Id, MessageId, Object, Text, ThreadId
from tenxgraph.server.json_text import as_json
from tenxgraph.server.settings import RunLimits
from tenxgraph.storage.checkpointer import ThreadInfo

__all__ = [
    "ForgetRequest",
    "Forgotten",
    "ForkRequest",
    "GraphDescription",
    "MemoryFields",
    "MemoryPage",
    "MemoryQuery",
    "MemoryUpdate",
    "MessagePage",
    "NewMemoryId",
    "RunRequest",
    "RunResult",
    "StateVersion",
    "StopRequest",
    "StoppedThread",
    "ThreadFields",
    "ThreadPage",
    "UserMessage",
    "shown",
]

# The library's own fields of a state are changed by the graph, and not by a client.
_OWN_FIELDS = frozenset(
    {"context", "messages", "context_summary", "context_summary_until", "execution_meta"}
)


class _Strict(BaseModel):
    """A request: what it says beyond what is known is an error, not overlooked."""

    model_config = ConfigDict(extra="forbid")


class UserMessage(_Strict):
    """A message of the user's, in OpenAI's format. Those of other roles are not a client's to say.

    Attributes:
        role: always `user`.
        content: text, or a list of parts.
        message_id: the same on every attempt, so that a repeated request adds it once.
    """

    role: Literal["user"] = "user"
    content: str | list[dict[str, Any]]
    message_id: MessageId | None = None


def _as_messages(said: Any) -> Any:
    """A text is a message; both may stand in a list."""
    listed = [said] if isinstance(said, str) else said
    if not isinstance(listed, list):
        return listed
    return [{"content": one} if isinstance(one, str) else one for one in listed]


class RunConfig(_Strict):
    """What a client may say of a run.

    Attributes:
        thread_id: the conversation; a new one if absent.
        run_id: the same on every attempt, so that a repeated request is answered and not run.
        thread_name: names a new thread.
        thread_meta: metadata of a new thread.
        on_pending: `cancel` lets a new message take the place of a question that waits.
        recursion_limit: fewer steps than the server allows.
        node_timeout: fewer seconds than the server allows.
        tool_timeout: fewer seconds than the server allows.
        values: handed on to the nodes, as `config["values"]`.
    """

    thread_id: ThreadId | None = None
    run_id: Id | None = None
    thread_name: Text | None = None
    thread_meta: Object | None = None
    on_pending: Literal["error", "cancel"] = "error"
    recursion_limit: Annotated[int, Field(ge=1)] | None = None
    node_timeout: Annotated[float, Field(ge=0.001)] | None = None
    tool_timeout: Annotated[float, Field(ge=0.001)] | None = None
    values: dict[str, Any] = Field(default_factory=dict)


class RunRequest(_Strict):
    """One run of the graph.

    Attributes:
        messages: what the user says: a text, or messages.
        state: values for fields of the graph's own state.
        resume: the answer to a question that the thread waits with, or a dict by question id.
        config: which thread, and how.
        on_disconnect: whether a stream whose reader has gone stops the run (it can be taken up
            again), or lets it go on.
    """

    messages: Annotated[list[UserMessage], BeforeValidator(_as_messages)] = Field(
        default_factory=list
    )
    state: dict[str, Any] = Field(default_factory=dict)
    resume: Any = None
    config: RunConfig = Field(default_factory=RunConfig)
    on_disconnect: Literal["stop", "continue"] = "stop"

    @field_validator("state")
    @classmethod
    def _only_own_fields(cls, state: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(_OWN_FIELDS & set(state))
        if taken:
            raise ValueError(f"{', '.join(taken)}: changed by the graph, and not by a client.")
        return state

    def named_messages(self) -> list[str]:
        """The ids that the client has given to its messages."""
        ids = (one.message_id for one in self.messages)
        return [one for one in ids if one is not None]

    def input(self, messages: list[Message]) -> dict[str, Any]:
        """Return the input of the graph, with messages that were built before."""
        given: dict[str, Any] = {"messages": messages, "state": self.state}
        if "resume" in self.model_fields_set:
            given["resume"] = self.resume
        return given

    def run_config(self, caller: Caller, limits: RunLimits) -> dict[str, Any]:
        """The config of the run, with what the server says in it."""
        told = {name: value for name, value in self.config if value is not None}
        told.setdefault("thread_id", uuid4().hex)
        told.setdefault("run_id", uuid4().hex)
        allowed = limits.of_one_run()
        within = {name: min(told.get(name, most), most) for name, most in allowed.items()}
        return {**told, **within, **caller.config()}


class StopRequest(_Strict):
    """Which run is to stop."""

    thread_id: ThreadId


class StoppedThread(BaseModel):
    """The run on this thread, if there is one, has been asked to stop."""

    thread_id: str
    stopping: bool = True


class RunResult(BaseModel):
    """What a run has come to.

    Attributes:
        thread_id: the conversation.
        run_id: the run.
        status: `completed`, `interrupted` or `stopped`.
        messages: what the run has added, after the input.
        state: the state without its messages, of which a thread may have thousands.
        interrupts: questions that wait for an answer.
        usage: tokens that the run has used.
    """

    thread_id: str
    run_id: str
    status: str
    messages: list[Message]
    state: dict[str, Any]
    interrupts: list[Interrupt]
    usage: TokenUsages


class StateVersion(BaseModel):
    """A state of a thread, with its messages, and its version."""

    thread_id: str
    version: int
    state: dict[str, Any]


class GraphDescription(BaseModel):
    """The graph: as Mermaid text, and the JSON schema of its state, if it has one."""

    mermaid: str
    state_schema: dict[str, Any] | None


class ThreadFields(_Strict):
    """What a client may say of a thread."""

    thread_name: Text | None = None
    metadata: Object | None = None


class ThreadPage(BaseModel):
    """Some threads, last changed first, and the `cursor` of the next page, if there may be one."""

    items: list[ThreadInfo]
    cursor: str | None


class MessagePage(BaseModel):
    """Some messages, oldest first, and the `cursor` of the next page, if there may be one."""

    items: list[Message]
    cursor: str | None


class ForkRequest(_Strict):
    """A new thread, from a kept version of this one; from the newest by default."""

    thread_id: ThreadId | None = None
    version: int | None = Field(default=None, ge=1, le=2**63 - 1)


class _Scoped(_Strict):
    """Within the caller's own memories, those of one agent or application."""

    agent_id: Id | None = None
    app_id: Id | None = None

    @field_validator("agent_id", "app_id", mode="before")
    @classmethod
    def _check_named(cls, value: Any) -> Any:
        # A client whose agent has no id would read and write all of the caller's memories.
        if value is None:
            raise ValueError("must be an id; leave it out where none is meant")
        return value

    def scope(self, caller: Caller) -> dict[str, Any]:
        """Whose memories are meant."""
        named = {"agent_id": self.agent_id, "app_id": self.app_id}
        return {"user_id": caller.user_id, **{k: v for k, v in named.items() if v is not None}}


class MemoryFields(_Scoped):
    """A memory to keep."""

    content: Text
    memory_type: str = "episodic"
    category: Text = "general"
    metadata: Object | None = None
    memory_key: Text | None = None
    idempotency_key: Text | None = None
    write_mode: Literal["merge", "replace"] = "merge"


class MemoryQuery(_Scoped):
    """What to look for."""

    query: Text
    memory_type: str | None = None
    category: Text | None = None
    limit: int = 5
    score_threshold: float | None = None
    filters: Object | None = None


class MemoryUpdate(_Strict):
    """A new content for a memory."""

    content: Text
    metadata: Object | None = None
    write_mode: Literal["merge", "replace"] = "merge"


class ForgetRequest(_Strict):
    """An empty JSON object: a web page of somebody else cannot send one without permission."""


class MemoryPage(BaseModel):
    """Some memories, and the `cursor` of the next page, if there is one."""

    items: list[dict[str, Any]]
    cursor: str | None


class NewMemoryId(BaseModel):
    """The id of a memory that was kept."""

    id: str


class Forgotten(BaseModel):
    """How many memories were deleted."""

    forgotten: int


def shown(state: AgentState, *, with_messages: bool = True) -> dict[str, Any]:
    """A state as a client is told of it: of an error inside, only its kind."""
    meta = state.execution_meta
    error = meta.error.partition(":")[0] if meta.error else None
    told = state.model_copy(update={"context": []})
    told.execution_meta = meta.model_copy(update={"error": error})
    fields: dict[str, Any] = as_json(told)
    del fields["context"]
    return {**fields, "context": state.context} if with_messages else fields
