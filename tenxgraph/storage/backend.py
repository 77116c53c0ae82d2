"""Backend: what a durable checkpointer needs of a database, in rows and texts.

A backend knows nothing of messages, states or codecs. The in-memory one and the SQL one keep the
same promises, so whatever is built on top behaves the same on all of them.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from tenxgraph.core.exceptions import StorageError
from tenxgraph.storage.records import StateSnapshot, ThreadInfo, ToolExecution
from tenxgraph.storage.scope import Scope

__all__ = [
    "Archive",
    "ArchivePage",
    "Backend",
    "Claim",
    "Committed",
    "ForgottenMessagesError",
    "Head",
    "Lease",
    "MessageQuery",
    "MessageRow",
    "Ranges",
    "StateRow",
    "StoredMessage",
    "ThreadQuery",
    "ToolRow",
    "Write",
]

Ranges = Sequence[Sequence[int]]
"""Message numbers, run-length encoded: `[[1, 1042]]` is a thousand messages. In a write, -1 is the
first new message, -2 the second."""


class MessageRow(NamedTuple):
    """A message as it is written."""

    message_id: str
    role: str
    tool_call_id: str | None
    data: str
    total_tokens: int | None


class StoredMessage(NamedTuple):
    """A message as it is read."""

    seq: int
    position: int
    data: str


class Claim(NamedTuple):
    """A lease as somebody has found it. A renewal makes it another one."""

    holder: str
    until: datetime


class Lease(NamedTuple):
    """A run's claim on its thread, which keeps other runs off for as long as it is at work."""

    holder: str
    lasts: timedelta | None
    """From the moment of the write, by the database's clock; `None` gives it back."""
    over: Claim | None = None
    """What does not count: its run is over, or has not renewed it in time."""


class ToolRow(NamedTuple):
    """A tool execution as it is stored; `result` is JSON text."""

    execution: ToolExecution
    result: str | None

    def columns(self) -> dict[str, Any]:
        """The row by column, but for its thread."""
        return {**self.execution.model_dump(exclude={"result"}), "result": self.result}


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One durable write: all of it happens, or none."""

    write_id: UUID
    new_generation: UUID
    """The life that begins if the thread is not there yet."""
    at: datetime
    messages: Sequence[MessageRow] = ()
    """Those not stored yet, in order."""
    generation: UUID | None = None
    """The life in which the numbers in `context` are valid; `None` where there are none."""
    state: str | None = None
    """The state without its context as a JSON object, or `None` to write messages alone."""
    context: Ranges = ()
    meta: str = "{}"
    tools: Sequence[ToolRow] = ()
    """What is known of tool calls, for a thread that begins with it."""
    keep: int = 20
    """How many states stay."""
    thread_name: str | None = None
    thread_meta: Mapping[str, Any] = field(default_factory=dict)
    lease: Lease | None = None
    """A run's claim; a write without one asks for none, and respects none."""


class Committed(NamedTuple):
    """What a write did."""

    version: int
    generation: UUID
    seqs: Sequence[int]
    """The number of each message of the write."""
    stop_requested: bool


class Head(NamedTuple):
    """A thread at this moment."""

    version: int
    generation: UUID
    stop_requested: bool


class StateRow(NamedTuple):
    """One stored state and the life of the thread it belongs to."""

    head: Head
    version: int
    state_data: str | None
    """`None`: the thread has no state."""
    base_seq: int
    messages: Mapping[int, str] | None = None
    """The messages of its context by number, where the backend has read them along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """Which of a thread's messages, by position."""

    message_ids: Sequence[str] | None = None
    """Only messages with one of these ids."""
    after: int | None = None
    before: int | None = None
    offset: int = 0
    limit: int | None = None
    newest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadQuery:
    """Which of the caller's threads."""

    user_id: str | None
    isolated: bool
    search: str | None = None
    filter: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Metadata keys, each with JSON values of which it must have one."""
    after: tuple[datetime, str] | None = None
    offset: int = 0
    limit: int | None = None


@dataclass(slots=True, kw_only=True)
class Archive:
    """A whole thread, row by row, as export and import carry it."""

    thread: dict[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    tool_executions: list[dict[str, Any]] = field(default_factory=list)


class ArchivePage(NamedTuple):
    """Some rows of a thread, all of one part."""

    part: str
    """`thread`, which comes first and alone, or the name of a table. The thread's row has the
    number of rows of each table in `rows`."""
    rows: Sequence[Mapping[str, Any]]


class ForgottenMessagesError(StorageError):
    """The thread that a write's message numbers point into is gone; nothing was written.

    Never leaves the library: the writer repeats the write with all messages as new ones.
    """


class Backend(Protocol):
    """The rows of all threads. Every method is atomic, and scoped to the caller's own threads."""

    async def setup(self) -> None:
        """Create or migrate the tables; doing it again does nothing."""

    async def close(self) -> None:
        """Give back every connection; only what this object made is closed."""

    async def commit(self, scope: Scope, write: Write) -> Committed:
        """Carry out a write.

        Raises:
            StaleStateError: the thread is not at `scope.expected_version`, or not in the life
                that the caller has seen.
            RunInProgressError: the write asks for a lease, and another run has it.
            ThreadOwnershipError: it is another user's.
            ForgottenMessagesError: it is not in the life `write.generation`.
        """

    async def head(self, scope: Scope) -> Head | None:
        """The thread at this moment; `None` if it is not there or not the caller's."""

    async def load_state(self, scope: Scope, version: int | None) -> StateRow | None:
        """A state: the newest, or the one of `version`."""

    async def load_messages(self, scope: Scope, ranges: Ranges) -> list[StoredMessage]:
        """Messages by number, of any revision, in order of their numbers."""

    async def list_states(
        self, scope: Scope, limit: int | None, before: int | None
    ) -> list[StateSnapshot]:
        """Kept versions, newest first."""

    async def clear_state(self, scope: Scope) -> Head | None:
        """Remove all states and advance the version; messages stay."""

    async def get_message(self, scope: Scope, message_id: str) -> StoredMessage | None:
        """The newest revision of a message."""

    async def list_messages(self, scope: Scope, query: MessageQuery) -> list[StoredMessage]:
        """Newest revisions, by position."""

    async def delete_message(self, scope: Scope, message_id: str) -> bool:
        """Remove a message in all its revisions; whether there was one."""

    async def put_thread(self, scope: Scope, info: ThreadInfo, generation: UUID) -> None:
        """Make the thread, or change its name and metadata where the record gives them."""

    async def get_thread(self, scope: Scope) -> ThreadInfo | None:
        """The thread's record."""

    async def list_threads(self, query: ThreadQuery) -> list[ThreadInfo]:
        """Records, last changed first."""

    async def delete_thread(self, scope: Scope) -> bool:
        """Remove the thread and all its rows; whether there was one."""

    async def set_stop(self, scope: Scope, requested: bool) -> bool:
        """Raise or lower the stop flag; whether the thread is there."""

    async def renew_lease(self, scope: Scope, lease: Lease) -> Head | None:
        """Keep a claim; `None` if the thread is gone or another run has taken it over."""

    async def get_tool(self, scope: Scope, message_id: str, position: int) -> ToolRow | None:
        """One tool execution."""

    async def list_tools(self, scope: Scope, status: str | None) -> list[ToolRow]:
        """Tool executions, in the order in which they were first recorded."""

    async def put_tool(self, scope: Scope, row: ToolRow) -> None:
        """Record a tool execution, or what became of it.

        Raises:
            StaleStateError: the thread is gone.
        """

    def read_archive(self, scope: Scope) -> AsyncGenerator[ArchivePage, None]:
        """Yield the whole thread as it is at one moment; nothing if it is not there."""

    async def write_archive(self, scope: Scope, archive: Archive, generation: UUID) -> None:
        """Make a whole thread.

        Raises:
            StorageError: there is a thread of that id already (code `thread_exists`).
        """
