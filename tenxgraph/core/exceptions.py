"""Every error the library raises.

    TenxGraphError
    ├── StorageError                 a checkpointer or store could not do what it was asked
    │   ├── StaleStateError          another run committed first, or the thread is gone
    │   │   └── RunInProgressError   another run is at work on the thread at this moment
    │   ├── ThreadOwnershipError     the thread belongs to another user
    │   ├── TransientStorageError    the database is away; the same call may succeed later
    │   ├── SchemaVersionError       the tables are missing, older or newer than this code
    │   └── SerializationError       a value cannot be stored, or a stored one not be read
    │       └── UnknownTypeError     stored data names a type that is not registered
    ├── GraphError                   a graph cannot be built or run
    │   ├── InputError               what came in does not fit the graph, or the thread
    │   ├── NodeError                a node raised, timed out or returned nonsense
    │   ├── GraphRecursionError      a run took more steps than `recursion_limit`
    │   ├── ToolError                a tool call cannot be carried out
    │   ├── RefusalError             a model refused to give the answer it was asked for
    │   └── PendingInterruptError    the thread waits for an answer, not for a message
    └── StoreError                   the long-term memory is unavailable or refuses the request
        └── StoreMismatchError       its embedding and its vectors do not fit together

Every message says what happened, to which thread, and what to do about it.
"""

from datetime import datetime
from typing import Any

__all__ = [
    "GraphError",
    "GraphRecursionError",
    "InputError",
    "NodeError",
    "PendingInterruptError",
    "RefusalError",
    "RunInProgressError",
    "SchemaVersionError",
    "SerializationError",
    "StaleStateError",
    "StorageError",
    "StoreError",
    "StoreMismatchError",
    "TenxGraphError",
    "ThreadOwnershipError",
    "ToolError",
    "TransientStorageError",
    "UnknownTypeError",
]


class TenxGraphError(Exception):
    """The root of every error raised on purpose by tenxgraph."""


class StorageError(TenxGraphError):
    """A checkpointer could not do what it was asked.

    Attributes:
        code: a short, stable name for the cause, for programs.
        context: what it happened to (thread, version, object), for logs. Never holds secrets.
    """

    code = "storage_error"

    def __init__(self, message: str, *, code: str | None = None, **context: Any) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.context = context


class StaleStateError(StorageError):
    """Another run committed first; nothing of this write was persisted.

    Attributes:
        thread_id: the thread.
        expected_version: the version this run read, or `None` where only the thread's life counts.
        current_version: the version found, or `None` if the thread is gone.
    """

    code = "stale_state"

    def __init__(
        self, thread_id: str, expected_version: int | None, current_version: int | None
    ) -> None:
        found = (
            "the thread is gone" if current_version is None else f"found version {current_version}"
        )
        expected = (
            "expected the thread as it was read"
            if expected_version is None
            else f"expected version {expected_version}"
        )
        super().__init__(
            f"Thread {thread_id!r} changed under this run: {expected}, {found}. Nothing was "
            "written. Read the state again and retry.",
            thread_id=thread_id,
            expected_version=expected_version,
            current_version=current_version,
        )
        self.thread_id = thread_id
        self.expected_version = expected_version
        self.current_version = current_version


class RunInProgressError(StaleStateError):
    """Another run is at work on the thread; nothing was written.

    Attributes:
        holder: the process that the run is in.
        until: when that process is taken for dead if it says nothing more.
        expired: whether that moment has passed, by the clock of the database.
    """

    code = "run_in_progress"

    def __init__(
        self, thread_id: str, version: int, holder: str, until: datetime, *, expired: bool
    ) -> None:
        super().__init__(thread_id, version, version)
        self.args = (
            f"Thread {thread_id!r} has a run in progress, in {holder}. Nothing was written. Wait "
            f"until it ends, or stop it. If its process has died, the thread is free by {until}.",
        )
        self.holder = holder
        self.until = until
        self.expired = expired


class ThreadOwnershipError(StorageError):
    """The thread belongs to another user; nothing was written."""

    code = "thread_ownership"

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"Thread {thread_id!r} belongs to another user. Nothing was written. Use a "
            "`thread_id` of your own.",
            thread_id=thread_id,
        )
        self.thread_id = thread_id


class TransientStorageError(StorageError):
    """The database cannot be reached or did not answer in time; the same call may succeed later."""

    code = "transient"


class SchemaVersionError(StorageError):
    """The tables are missing, older or newer than this version of tenxgraph expects."""

    code = "schema_version"


class SerializationError(StorageError):
    """A value cannot be stored as it is, or a stored value cannot be read as what it should be.

    Attributes:
        path: where in the value, such as `state.extra['fn']`.
    """

    code = "serialization"

    def __init__(self, message: str, *, path: str = "", **context: Any) -> None:
        super().__init__(message, path=path, **context)
        self.path = path


class UnknownTypeError(SerializationError):
    """Stored data names a type that this process has not registered; no class is ever imported."""

    code = "unknown_type"


class GraphError(TenxGraphError):
    """A graph cannot be built or run as described."""


class InputError(GraphError):
    """What a caller sent in does not fit the graph, or the thread. Nothing has run."""


class NodeError(GraphError):
    """A node raised, timed out or returned something that is no update of the state."""

    def __init__(self, message: str, *, node: str) -> None:
        super().__init__(message)
        self.node = node


class GraphRecursionError(GraphError):
    """A run took more steps than its `recursion_limit`."""


class ToolError(GraphError):
    """A tool call cannot be carried out."""


class RefusalError(GraphError):
    """A model refused to give an answer of the form that it was asked for.

    Attributes:
        refusal: what the model said.
    """

    def __init__(self, message: str, *, refusal: str) -> None:
        super().__init__(message)
        self.refusal = refusal


class PendingInterruptError(GraphError):
    """The thread waits for an answer to an interrupt, and got a message instead."""


class StoreError(TenxGraphError):
    """The long-term memory is unavailable, or cannot be used as it is set up."""


class StoreMismatchError(StoreError):
    """The embedding does not make the vectors that it, or the collection, is said to have.

    Repeating the call does not help; mending the configuration does.
    """
