"""BaseCheckpointer: what every checkpointer promises, on every backend.

Each method is async and begins with `a`; each has a sync twin without it, which may be called from
anywhere, a running event loop included.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self

from tenxgraph._other_names import OtherNames
from tenxgraph._sync import closing_twin, sync_iterator_twin, sync_twin
from tenxgraph.core.state import Message
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.backend import Lease
from tenxgraph.storage.records import Page, StateSnapshot, ThreadInfo, ToolExecution

__all__ = ["BaseCheckpointer", "Config"]


Config = MutableMapping[str, Any]
"""What says which thread is meant, and who asks: `thread_id`, `user_id`, and more. A read of the
newest state, and a write, record the thread's version in it under `_checkpoint_version`."""


class BaseCheckpointer(OtherNames, ABC, Generic[StateT]):
    """The memory of threads: states, messages, tool executions.

    Every method that takes a config raises `ValueError` where `thread_id`, or with isolation
    `user_id`, is missing or no id: a string of 1 to 255 characters without NUL, or an int. With
    isolation, another user's thread reads like one that is not there, and a write to it raises
    `ThreadOwnershipError`. A database that is away raises `TransientStorageError`.
    """

    @property
    def serves_one_process(self) -> bool:
        """Whether what is kept here cannot be reached by another process."""
        return False

    @abstractmethod
    async def asetup(self) -> None:
        """Create the tables, or migrate them. Run it once before the first request.

        Doing it again, or from several processes at once, does no harm.

        Raises:
            SchemaVersionError: the tables are newer than this version of the library.
            StorageError: the database role may not create them (code `missing_privilege`).
        """

    @abstractmethod
    def bind_state_type(self, state_type: type[StateT]) -> None:
        """Say which class states are read as. `compile()` does it; without it, `AgentState`."""

    @abstractmethod
    async def aput_checkpoint(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateT:
        """Write a new version of the state, and every message that is not stored yet.

        One atomic compare-and-swap on `config["_checkpoint_version"]`: absent, it appends to
        whatever is there; 0, the thread must have no state; n, it must be at version n. The new
        version is recorded there. Messages of the context are stored whether or not they are
        listed in `messages`, which is for those outside of it.

        Raises:
            StaleStateError: another run has committed since, or the thread is gone. Nothing was
                written.
            ThreadOwnershipError: the thread is another user's. Nothing was written.
            SerializationError: the state holds something that cannot be stored; names the path.
                Nothing was written.
        """

    async def aput_state(self, config: Config, state: StateT) -> StateT:
        """Write a new version of the state: `aput_checkpoint` without more to say."""
        return await self.aput_checkpoint(config, state)

    @abstractmethod
    async def aget_state(self, config: Config, version: int | None = None) -> StateT | None:
        """The newest state, whose version is recorded in the config, or a kept older one.

        Returns:
            The state; `None` if there is no such thread or version, or it is another user's.

        Raises:
            SerializationError: what is stored does not fit the state class any more; names the
                thread, the version and the field. Older versions stay readable.
        """

    @abstractmethod
    async def aclear_state(self, config: Config) -> None:
        """Forget all states of the thread, not its messages; makes every recorded version stale."""

    async def aput_state_cache(self, config: Config, state: StateT) -> None:
        """Refresh the cache with a state that was just written; without a cache, nothing."""

    async def aget_state_cache(self, config: Config) -> StateT | None:
        """The cached state, with its version recorded in the config; `None` on a miss."""
        return None

    @abstractmethod
    async def aput_messages(
        self,
        config: Config,
        messages: Sequence[Message],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Store messages without a state; makes the thread if it is not there.

        Does not change the thread's version. A message sent again unchanged is stored once; one
        that says something else under the same id takes that one's place.

        Args:
            config: the thread.
            messages: what to store, in order.
            metadata: added to the metadata of each message.
        """

    @abstractmethod
    async def aget_message(self, config: Config, message_id: str) -> Message | None:
        """The message as it was last written, or `None`."""

    async def aget_messages(self, config: Config, message_ids: Sequence[str]) -> list[Message]:
        """Return the messages with these ids as they were last written; unknown ids are left out.

        Checkpointers of this library read them all with one query.
        """
        found = [await self.aget_message(config, one) for one in dict.fromkeys(message_ids)]
        return [one for one in found if one is not None]

    @abstractmethod
    async def alist_messages(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        last: int | None = None,
        after: str | None = None,
    ) -> Page[Message]:
        """The thread's messages, oldest first.

        Args:
            config: the thread.
            search: only messages whose text contains this, whatever the case.
            offset: how many to pass over.
            limit: how many at most.
            last: the newest so many, instead of `offset`, `limit` and `after`; more, where the
                first would be a tool's result without the call that asked for it.
            after: the `cursor` of an earlier page; steady while new messages arrive.
        """

    @abstractmethod
    async def adelete_message(self, config: Config, message_id: str) -> bool:
        """Delete a message in all its revisions; whether there was one.

        States that referred to it are read without it from now on.
        """

    @abstractmethod
    async def aput_thread(self, config: Config, info: ThreadInfo) -> None:
        """Make the thread's record, or change its name and metadata where `info` gives them."""

    @abstractmethod
    async def aget_thread(self, config: Config) -> ThreadInfo | None:
        """The thread's record, or `None`."""

    @abstractmethod
    async def alist_threads(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        filter: Mapping[str, str | int | float | bool | None] | None = None,
        cursor: str | None = None,
    ) -> Page[ThreadInfo]:
        """The caller's threads, last changed first; without isolation, everybody's.

        Args:
            config: the caller; needs no `thread_id`.
            search: only threads whose name contains this.
            offset: how many to pass over.
            limit: how many at most.
            filter: only threads whose metadata has each of these keys with this very value.
            cursor: the `cursor` of an earlier page.

        Raises:
            ValueError: a filter value is no plain scalar, or a number is not what it should be.
        """

    @abstractmethod
    async def aclean_thread(self, config: Config) -> bool:
        """Delete the thread with all its data; whether there was one.

        A run that is still going on cannot bring it back: its next write is stale.
        """

    @abstractmethod
    async def alist_states(
        self, config: Config, limit: int | None = None, before: int | None = None
    ) -> list[StateSnapshot]:
        """The kept versions, newest first; reads no state.

        Args:
            config: the thread.
            limit: how many at most.
            before: only versions older than this one.
        """

    @abstractmethod
    async def afork_thread(
        self, config: Config, new_thread_id: str, version: int | None = None
    ) -> dict[str, Any]:
        """Begin a new thread with a state of this one, and the messages in its context.

        What is known of the tool calls in these messages comes along, so that none that has
        finished here runs again there. What is only promised (`scheduled`) stays with this thread.

        Returns:
            A config for the new thread, which is the caller's.

        Raises:
            StorageError: there is no such state (code `not_found`), or the new thread has one
                already (code `thread_exists`).
        """

    @abstractmethod
    def aexport_thread(self, config: Config) -> AsyncGenerator[str, None]:
        """Yield the whole thread as lines of JSON: the record, messages, states, tool executions.

        All lines are of one moment, whatever others write or delete meanwhile. Rows are read page
        by page; on PostgreSQL and in a SQLite file a connection is held until the last line, or
        until the generator is closed.

        Raises:
            StorageError: there is no such thread (code `not_found`).
            SerializationError: the stored thread is damaged, so that no import would take it.
        """

    @abstractmethod
    async def aimport_thread(self, config: Config, lines: Iterable[str]) -> ThreadInfo:
        """Make a thread from what `aexport_thread` gave, on any backend, for the caller.

        Args:
            config: the caller; with a `thread_id`, the thread gets that one instead of its own.
            lines: the export.

        Raises:
            StorageError: there is a thread of that id already (code `thread_exists`).
            SerializationError: the lines are no export.
        """

    @abstractmethod
    async def arequest_stop(self, config: Config) -> bool:
        """Ask the run on this thread, in whatever process, to stop; whether the thread is there."""

    @abstractmethod
    async def ais_stop_requested(self, config: Config) -> bool:
        """Whether somebody asked for a stop that has not been cleared."""

    @abstractmethod
    async def aclear_stop_request(self, config: Config) -> None:
        """Forget that somebody asked for a stop."""

    @abstractmethod
    async def arenew_lease(self, config: Config, lease: Lease) -> bool:
        """Keep a run's claim on the thread; false if the thread is gone or another run has it.

        Brings the stop flag along, as a write does, in `config["_stop_requested"]`.
        """

    @abstractmethod
    async def aget_tool_result(
        self, config: Config, message_id: str, position: int
    ) -> ToolExecution | None:
        """What is known of a tool call: the one at `position` of the message that asked."""

    @abstractmethod
    async def alist_tool_results(
        self, config: Config, status: str | None = None
    ) -> list[ToolExecution]:
        """What is known of the thread's tool calls, in the order they were first recorded."""

    @abstractmethod
    async def aput_tool_result(self, config: Config, execution: ToolExecution) -> None:
        """Record a tool call, or what became of it, in a transaction of its own.

        Raises:
            StaleStateError: the thread is gone.
            SerializationError: the result cannot be stored.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Give back every connection that this object made; used again, it makes new ones."""

    async def arelease(self) -> None:
        """Do what `aclose` does."""
        await self.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    setup = sync_twin(asetup)
    put_checkpoint = sync_twin(aput_checkpoint)
    put_state = sync_twin(aput_state)
    get_state = sync_twin(aget_state)
    clear_state = sync_twin(aclear_state)
    put_state_cache = sync_twin(aput_state_cache)
    get_state_cache = sync_twin(aget_state_cache)
    put_messages = sync_twin(aput_messages)
    get_message = sync_twin(aget_message)
    get_messages = sync_twin(aget_messages)
    list_messages = sync_twin(alist_messages)
    delete_message = sync_twin(adelete_message)
    put_thread = sync_twin(aput_thread)
    get_thread = sync_twin(aget_thread)
    list_threads = sync_twin(alist_threads)
    clean_thread = sync_twin(aclean_thread)
    list_states = sync_twin(alist_states)
    fork_thread = sync_twin(afork_thread)
    export_thread = sync_iterator_twin(aexport_thread)
    import_thread = sync_twin(aimport_thread)
    request_stop = sync_twin(arequest_stop)
    is_stop_requested = sync_twin(ais_stop_requested)
    clear_stop_request = sync_twin(aclear_stop_request)
    renew_lease = sync_twin(arenew_lease)
    get_tool_result = sync_twin(aget_tool_result)
    list_tool_results = sync_twin(alist_tool_results)
    put_tool_result = sync_twin(aput_tool_result)
    close = closing_twin(aclose)
    release = closing_twin(arelease)
