"""DurableCheckpointer: the promise kept once, over any backend."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, NamedTuple, cast

from tenxgraph.core.exceptions import SerializationError, StorageError
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage import archive, fork, paging, stored_state
from tenxgraph.storage.backend import (
    Backend,
    ForgottenMessagesError,
    Head,
    Lease,
    MessageQuery,
    StateRow,
    ThreadQuery,
    ToolRow,
    Write,
)
from tenxgraph.storage.checkpointer.base import BaseCheckpointer, Config
from tenxgraph.storage.draft import Draft, new_generation
from tenxgraph.storage.records import Page, StateSnapshot, ThreadInfo, ToolExecution
from tenxgraph.storage.scope import STATE_TYPE_KEY, Scope, checked_text, owner_of, remember

__all__ = ["DurableCheckpointer", "PreparedPut"]


class PreparedPut(NamedTuple, Generic[StateT]):
    """A state's write, encoded."""

    scope: Scope
    state: StateT
    """Told where it is stored once it is; not read any more."""
    draft: Draft
    write: Write
    tools: Sequence[ToolRow]


# Databases bound the number of parameters of a statement, to 32767 at the least.
_MOST_IDS = 10_000


class DurableCheckpointer(BaseCheckpointer[StateT]):
    """Turns configs into scopes, and states and messages into rows and back."""

    def __init__(
        self,
        backend: Backend,
        *,
        state_history_limit: int = 20,
        enforce_user_isolation: bool = True,
    ) -> None:
        if type(state_history_limit) is not int or state_history_limit < 1:
            message = f"`state_history_limit` must be 1 or more, not {state_history_limit!r}."
            raise ValueError(message)
        self._backend = backend
        self._keep = state_history_limit
        self.enforce_user_isolation = enforce_user_isolation
        self._codecs: dict[type[AgentState], StateCodec[Any]] = {}
        self._state_type: type[AgentState] = AgentState

    async def asetup(self) -> None:
        await self._backend.setup()

    def bind_state_type(self, state_type: type[StateT]) -> None:
        self._state_type = state_type

    def codec(self, state_type: type[AgentState] | None = None) -> StateCodec[Any]:
        """The codec of a state class, by default of the one that is bound."""
        kind = state_type or self._state_type
        codec = self._codecs.get(kind)
        if codec is None:
            codec = self._codecs[kind] = StateCodec(kind)
        return codec

    def codec_for(self, config: Mapping[str, Any]) -> StateCodec[Any]:
        """The codec of the class that a graph's config names, or of the one that is bound."""
        return self.codec(config.get(STATE_TYPE_KEY))

    def scope(self, config: Mapping[str, Any]) -> Scope:
        """What a config says, checked. Raises `ValueError` where it is no config."""
        return Scope.of(config, isolate=self.enforce_user_isolation)

    async def aput_checkpoint(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateT:
        put = self.prepared(config, state, messages, metadata)
        return await self.put_prepared(config, put)

    def prepared(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[ToolRow] = (),
    ) -> PreparedPut[StateT]:
        """Encode a write now, so that what the caller changes later is not in it.

        Raises what `aput_checkpoint` does before it writes.
        """
        scope = self.scope(config)
        if not isinstance(state, AgentState):
            message = f"`state` must be an AgentState, not {type(state).__name__}."
            raise TypeError(message)
        if self._state_type is AgentState:
            self.bind_state_type(type(state))
        codec = self.codec(type(state))
        draft = Draft.of_state(codec, scope, config, state, messages or (), metadata or {})
        return PreparedPut(scope, state, draft, draft.write(self._keep, tools), tools)

    async def put_prepared(self, config: Config, put: PreparedPut[StateT]) -> StateT:
        """Write what `prepared` has encoded, and record the new version in the config."""
        draft = put.draft
        try:
            committed = await self._backend.commit(put.scope, put.write)
        except ForgottenMessagesError:
            # The thread these messages were stored in is gone: in the new one they are new.
            draft.forget_places()
            write = draft.write(self._keep, put.tools)
            committed = await self._backend.commit(put.scope, write)
        draft.settle(committed, put.state)
        remember(config, committed.version, committed.generation)
        config["_stop_requested"] = committed.stop_requested
        return put.state

    async def aget_state(self, config: Config, version: int | None = None) -> StateT | None:
        scope = self.scope(config)
        if version is not None:
            paging.checked_number("version", version)
        row = await self._backend.load_state(scope, version)
        if version is None:
            head = None if row is None else row.head
            remember(config, 0 if head is None else head.version, head and head.generation)
        if row is None or row.state_data is None:
            return None
        return await self._state(scope, row, self.codec_for(config))

    async def head(self, config: Mapping[str, Any]) -> Head | None:
        """Where the thread stands now: one look-up by primary key, without reading a state."""
        return await self._backend.head(self.scope(config))

    async def _state(self, scope: Scope, row: StateRow, codec: StateCodec[Any]) -> StateT:
        try:
            context, fields = stored_state.split(row.state_data or "")
            ranges = stored_state.absolute(context, row.base_seq)
            missing = ranges and row.messages is None
            stored = await self._backend.load_messages(scope, ranges) if missing else ()
            return cast("StateT", stored_state.assemble(codec, row, fields, ranges, stored))
        except SerializationError as error:
            message = (
                f"Thread {scope.thread_id!r}, version {row.version}, cannot be read: {error}. "
                "Older versions may still be: see `alist_states`."
            )
            error.args = (message,)
            error.context |= {"thread_id": scope.thread_id, "version": row.version}
            raise

    async def aput_state_cache(self, config: Config, state: StateT) -> None:
        self.scope(config)  # there is no cache, but a config that is none is refused all the same

    async def aget_state_cache(self, config: Config) -> StateT | None:
        self.scope(config)
        return None

    async def aclear_state(self, config: Config) -> None:
        head = await self._backend.clear_state(self.scope(config))
        if head is not None:
            remember(config, head.version, head.generation)

    async def aput_messages(
        self,
        config: Config,
        messages: Sequence[Message],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        scope = self.scope(config)
        draft = Draft.of_messages(self.codec(), config, messages, metadata)
        if draft.messages:
            draft.settle(await self._backend.commit(scope, draft.write(self._keep)))

    async def aget_message(self, config: Config, message_id: str) -> Message | None:
        message_id = checked_text("message_id", message_id)
        row = await self._backend.get_message(self.scope(config), message_id)
        return None if row is None else self.codec().messages([row.data])[0]

    async def aget_messages(self, config: Config, message_ids: Sequence[str]) -> list[Message]:
        ids = list(dict.fromkeys(checked_text("message_id", one) for one in message_ids))
        scope, rows = self.scope(config), []
        for begin in range(0, len(ids), _MOST_IDS):
            query = MessageQuery(message_ids=ids[begin : begin + _MOST_IDS])
            rows += await self._backend.list_messages(scope, query)
        return self.codec().messages([row.data for row in rows])

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
        scope = self.scope(config)
        paging.refuse_both("last", last, after=after, offset=offset, limit=limit)
        search = None if search is None else checked_text("search", search)
        query = MessageQuery(
            after=paging.position(after),
            offset=paging.checked_number("offset", offset) or 0,
            limit=paging.checked_number("limit", limit),
        )
        last = paging.checked_number("last", last)
        pages = paging.MessagePages(self._backend, self.codec(), scope)
        if last is not None:
            return await pages.last(last, search)
        return await pages.matching(query, search) if search else await pages.plain(query)

    async def adelete_message(self, config: Config, message_id: str) -> bool:
        message_id = checked_text("message_id", message_id)
        return await self._backend.delete_message(self.scope(config), message_id)

    async def aput_thread(self, config: Config, info: ThreadInfo) -> None:
        scope = self.scope(config)
        if str(info.thread_id) != scope.thread_id:
            message = f"The config names thread {scope.thread_id!r}, the record {info.thread_id!r}."
            raise ValueError(message)
        metadata = self.codec().encode(info.metadata, "metadata")
        stored = info.model_copy(update={"metadata": metadata})
        await self._backend.put_thread(scope, stored, new_generation())

    async def aget_thread(self, config: Config) -> ThreadInfo | None:
        info = await self._backend.get_thread(self.scope(config))
        return None if info is None else self._decoded(info)

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
        user_id, isolated = owner_of(config, isolate=self.enforce_user_isolation)
        query = ThreadQuery(
            user_id=user_id,
            isolated=isolated,
            search=None if search is None else checked_text("search", search),
            filter=paging.checked_filter(filter or {}),
            after=paging.thread_place(cursor),
            offset=paging.checked_number("offset", offset) or 0,
            limit=paging.checked_number("limit", limit),
        )
        found = [self._decoded(info) for info in await self._backend.list_threads(query)]
        return Page(found, cursor=paging.thread_cursor(found[-1]) if found else None)

    def _decoded(self, info: ThreadInfo) -> ThreadInfo:
        # One record that cannot be read must not hide all the others of a listing.
        metadata = self.codec().decode_or_leave(info.metadata)
        return info.model_copy(update={"metadata": metadata})

    async def aclean_thread(self, config: Config) -> bool:
        return await self._backend.delete_thread(self.scope(config))

    async def alist_states(
        self, config: Config, limit: int | None = None, before: int | None = None
    ) -> list[StateSnapshot]:
        limit = paging.checked_number("limit", limit)
        before = paging.checked_number("before", before)
        codec = self.codec()
        snapshots = await self._backend.list_states(self.scope(config), limit, before)
        return [
            one.model_copy(update={"meta": codec.decode_or_leave(one.meta)}) for one in snapshots
        ]

    async def afork_thread(
        self, config: Config, new_thread_id: str, version: int | None = None
    ) -> dict[str, Any]:
        state = await self.aget_state(dict(config), version)
        if state is None:
            wanted = "no state" if version is None else f"no version {version}"
            message = f"Thread {config.get('thread_id')!r} has {wanted} to fork from."
            raise StorageError(message, code="not_found")
        forked = {name: value for name, value in config.items() if not name.startswith("_")}
        forked |= {"thread_id": new_thread_id, "_checkpoint_version": 0}
        await fork.refuse_existing(self._backend, self.scope(forked))
        tools = await self._backend.list_tools(self.scope(config), None)
        origin = {"forked_from": config["thread_id"]}
        rows = fork.tools_of(state.context, tools)
        await self.put_prepared(forked, self.prepared(forked, state, (), origin, rows))
        return forked

    async def aexport_thread(self, config: Config) -> AsyncGenerator[str, None]:
        scope = self.scope(config)
        found = False
        # Closed with this generator: a snapshot that nobody reads on would keep its connection.
        async with aclosing(self._backend.read_archive(scope)) as pages:
            async for line in archive.lines(pages):
                found = True
                yield line
        if not found:
            message = f"There is no thread {scope.thread_id!r} to export."
            raise StorageError(message, code="not_found", thread_id=scope.thread_id)

    async def aimport_thread(self, config: Config, lines: Iterable[str]) -> ThreadInfo:
        found = archive.parse(lines)
        named = {**config, "thread_id": config.get("thread_id") or found.thread["thread_id"]}
        scope = self.scope({key: value for key, value in named.items() if key[0] != "_"})
        await self._backend.write_archive(scope, found, new_generation())
        info = await self.aget_thread(named)
        assert info is not None, "it was just written"
        return info

    async def arequest_stop(self, config: Config) -> bool:
        return await self._backend.set_stop(self.scope(config), requested=True)

    async def ais_stop_requested(self, config: Config) -> bool:
        head = await self._backend.head(self.scope(config))
        return head is not None and head.stop_requested

    async def aclear_stop_request(self, config: Config) -> None:
        await self._backend.set_stop(self.scope(config), requested=False)

    async def arenew_lease(self, config: Config, lease: Lease) -> bool:
        head = await self._backend.renew_lease(self.scope(config), lease)
        config["_stop_requested"] = head is not None and head.stop_requested
        return head is not None

    async def aget_tool_result(
        self, config: Config, message_id: str, position: int
    ) -> ToolExecution | None:
        message_id = checked_text("message_id", message_id)
        paging.checked_number("position", position)
        row = await self._backend.get_tool(self.scope(config), message_id, position)
        return None if row is None else self._execution(row)

    async def alist_tool_results(
        self, config: Config, status: str | None = None
    ) -> list[ToolExecution]:
        status = None if status is None else checked_text("status", status)
        rows = await self._backend.list_tools(self.scope(config), status)
        return [self._execution(row) for row in rows]

    async def aput_tool_result(self, config: Config, execution: ToolExecution) -> None:
        scope = self.scope(config)
        result = self.codec().dumps(execution.result, "result")
        # A copy: the record is the caller's, who may change it while the write is on its way.
        await self._backend.put_tool(scope, ToolRow(execution.model_copy(), result))

    def _execution(self, row: ToolRow) -> ToolExecution:
        result = None if row.result is None else self.codec().loads(row.result)
        return row.execution.model_copy(update={"result": result})

    async def aclose(self) -> None:
        await self._backend.close()
