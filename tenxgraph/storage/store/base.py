"""What every long-term memory promises, and the rules that are the same for all of them."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self

from tenxgraph._sync import closing_twin, sync_twin
from tenxgraph.storage.store import writer_thread
from tenxgraph.storage.store.memory_scope import Config, MemoryScope, Provenance
from tenxgraph.storage.store.new_record import (
    changed,
    checked_key,
    checked_memories,
    new_record,
)
from tenxgraph.storage.store.pending import PendingWrites
from tenxgraph.storage.store.query import (
    Where,
    checked_cursor,
    checked_limit,
    checked_query,
    checked_threshold,
    conditions,
    matches,
)
from tenxgraph.storage.store.records import (
    MemoryPage,
    MemorySearchResult,
    NewMemory,
    WriteMode,
    checked_content,
    checked_metadata,
    checked_write_mode,
    moment,
)

__all__ = ["BaseStore", "Revision"]

Revision = Callable[[MemorySearchResult], MemorySearchResult | None]
"""What an update makes of a memory; `None` if it is to stay as it is."""

_FORGET_PAGE = 256

_making_writes = threading.Lock()


def _renew_lock() -> None:
    """A lock held by another thread at the moment of a fork would stay locked in the child."""
    global _making_writes
    _making_writes = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class BaseStore(ABC):
    """Facts that outlive a thread, found by meaning.

    Every operation is bound to the scope that its config names: `user_id`, `agent_id`, `app_id`
    or several of them. An id of a memory outside that scope is an id of no memory. A config that
    names no scope is `ValueError`, before anything is read or written.

    The config may also carry `thread_id`, `message_id` and `tool_call_id`: a new memory keeps them
    as its provenance.

    Methods may be called from any event loop, and each has a sync twin without the `a`.
    Bad arguments are `ValueError`; a backend or an embedding that is away is `StoreError`.
    """

    _writes: PendingWrites | None = None

    @property
    def serves_one_process(self) -> bool:
        """Whether what is kept here cannot be reached by another process at the same time."""
        return False

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Make a store, whose writes are waited for when the process is told to end."""
        # Not with the first write alone: that may come from the thread of the sync API, where no
        # handler can be set. Not in `__init__` either, which a store of one's own need not call.
        writer_thread.hook_sigterm()
        return super().__new__(cls)

    @property
    def writes(self) -> PendingWrites:
        """The background writes of this store, and what became of them."""
        with _making_writes:
            if self._writes is None:
                self._writes = PendingWrites(self)
            return self._writes

    async def asetup(self) -> None:
        """Make the store ready, and check that it fits. The first use does it by itself."""
        return

    async def astore(
        self,
        config: Config,
        content: str,
        memory_type: str = "episodic",
        category: str = "general",
        metadata: Mapping[str, Any] | None = None,
        *,
        memory_key: str | int | None = None,
        idempotency_key: str | None = None,
        write_mode: WriteMode = "merge",
    ) -> str:
        """Remember a text, and return the memory's id.

        Args:
            config: whose memory it is, and where it was learnt.
            content: the text; never blank.
            memory_type: a `MemoryType` by name; unknown names are `"episodic"`.
            category: a label of your own to filter by.
            metadata: JSON values of your own.
            memory_key: if this scope has a memory with this key, that memory gets the new content.
                Without a key, each call makes a new memory.
            idempotency_key: repeating a call with the same key makes no second memory.
            write_mode: whether the metadata of the memory that had the key is kept.
        """
        memory = NewMemory(
            content=content,
            memory_type=memory_type,
            category=category,
            metadata=metadata,
            memory_key=memory_key,
            idempotency_key=idempotency_key,
        )
        return (await self.astore_many(config, [memory], write_mode=write_mode))[0]

    async def astore_many(
        self, config: Config, memories: Sequence[NewMemory], *, write_mode: WriteMode = "merge"
    ) -> list[str]:
        """Remember several texts at once, and return their ids in order.

        All are checked before the first is written. If a key occurs twice, the last one counts.
        What was promised before to the scope of a memory with a key is waited for.
        """
        scope, provenance = MemoryScope.of(config), Provenance.of(config)
        checked_write_mode(write_mode)
        records = [new_record(scope, provenance, memory) for memory in checked_memories(memories)]
        if any(record.memory_key is not None for record in records):
            await self.writes.flush(scope)
        return await self._asave(scope, records, write_mode) if records else []

    async def asearch(
        self,
        config: Config,
        query: str,
        memory_type: str | None = None,
        category: str | None = None,
        limit: int = 5,
        score_threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> list[MemorySearchResult]:
        """The memories of the scope that are nearest in meaning, nearest first.

        Background writes of the scope that are still on their way are waited for.

        Args:
            config: whose memories are searched.
            query: what to look for, in natural language.
            memory_type: only memories of this type.
            category: only memories with this label.
            limit: how many at most, 1 to 1,000.
            score_threshold: the lowest score to return, 0 to 1.
            filters: values, or lists of values of which one must fit, for `memory_type`,
                `category`, `memory_key` and `thread_id`.
        """
        scope = MemoryScope.of(config)
        where = conditions(memory_type, category, filters)
        checked_limit(limit)
        lowest = checked_threshold(score_threshold)
        asked = checked_query(query)
        await self.writes.flush(scope)
        found = await self._asearch(scope, asked, where, limit)
        near = [memory for memory in _held(scope, found, where) if memory.score >= lowest]
        return near[:limit]

    async def aget(self, config: Config, memory_id: str) -> MemorySearchResult | None:
        """One memory with its provenance, or `None` if the scope has none of this id."""
        scope = MemoryScope.of(config)
        await self.writes.flush(scope)
        return await self._aone(scope, memory_id)

    async def aget_by_key(self, config: Config, memory_key: str | int) -> MemorySearchResult | None:
        """The memory that was stored under this key in this very scope, or `None`."""
        scope = MemoryScope.of(config)
        key = checked_key(memory_key)
        await self.writes.flush(scope)
        found = await self._akeyed(scope, key)
        return next(iter(_held(scope, [found] if found else [], {"memory_key": [key]})), None)

    async def aget_all(
        self, config: Config, limit: int = 100, cursor: str | None = None
    ) -> MemoryPage:
        """The memories of the scope, a page at a time, in an order that stays the same.

        Args:
            config: whose memories.
            limit: how many a page has at most, 1 to 1,000.
            cursor: the `cursor` of the page before.
        """
        scope = MemoryScope.of(config)
        checked_limit(limit)
        checked_cursor(cursor)
        await self.writes.flush(scope)
        return await self._aown_page(scope, limit, cursor)

    async def aupdate(
        self,
        config: Config,
        memory_id: str,
        content: str,
        metadata: Mapping[str, Any] | None = None,
        write_mode: WriteMode = "merge",
    ) -> bool:
        """Give a memory a new content. `False` if the scope has none of this id.

        With `write_mode="merge"` new metadata is laid over the old; `"replace"` drops the old.
        What was promised before to this scope is waited for.
        """
        scope = MemoryScope.of(config)
        text, new = checked_content(content), checked_metadata(metadata)
        checked_write_mode(write_mode)
        await self.writes.flush(scope)

        def revise(old: MemorySearchResult) -> MemorySearchResult:
            return changed(old, text, new, write_mode, moment())

        return await self._arevise(scope, memory_id, text, revise)

    async def adelete(self, config: Config, memory_id: str) -> bool:
        """Delete a memory. `False` if the scope has none of this id.

        What was promised before to this scope is waited for.
        """
        scope = MemoryScope.of(config)
        await self.writes.flush(scope)
        if await self._aone(scope, memory_id) is None:
            return False
        await self._aremove(scope, [memory_id])
        return True

    async def aforget_memory(self, config: Config) -> int:
        """Delete every memory of the scope, page by page, and return how many there were.

        Background writes of the scope land first, so that none comes back afterwards.
        """
        scope = MemoryScope.of(config)
        await self.writes.flush(scope)
        self.writes.take_failures(scope)
        forgotten, cursor = 0, None
        while True:
            page = await self._aown_page(scope, _FORGET_PAGE, cursor)
            if page:
                await self._aremove(scope, [memory.id for memory in page])
            forgotten += len(page)
            cursor = page.cursor
            if cursor is None:
                return forgotten

    async def aflush(self, config: Config | None = None, timeout: float | None = None) -> int:
        """Wait for the background writes, and return how many did not land in time.

        Args:
            config: only the writes of this scope; by default all of this store.
            timeout: seconds to wait at most; by default until all have landed or failed.
        """
        return await self.writes.flush(None if config is None else MemoryScope.of(config), timeout)

    async def aclose(self) -> None:
        """Land the background writes, then close what this store has opened."""
        await self.writes.flush()
        await self._aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    setup = sync_twin(asetup)
    store = sync_twin(astore)
    store_many = sync_twin(astore_many)
    search = sync_twin(asearch)
    get = sync_twin(aget)
    get_by_key = sync_twin(aget_by_key)
    get_all = sync_twin(aget_all)
    update = sync_twin(aupdate)
    delete = sync_twin(adelete)
    forget_memory = sync_twin(aforget_memory)
    flush = sync_twin(aflush)
    close = closing_twin(aclose)

    async def _aown_page(self, scope: MemoryScope, limit: int, cursor: str | None) -> MemoryPage:
        page = await self._apage(scope, limit, cursor)
        return MemoryPage(_held(scope, page), page.cursor)

    async def _aone(self, scope: MemoryScope, memory_id: str) -> MemorySearchResult | None:
        found = await self._afetch(scope, [memory_id])
        return found[0] if found and scope.holds(found[0]) else None

    async def _awritten(
        self, scope: MemoryScope, record: MemorySearchResult
    ) -> MemorySearchResult | None:
        """What there is where this record was written, whoever wrote it last."""
        return await self._aone(scope, record.id)

    @abstractmethod
    async def _asave(
        self,
        scope: MemoryScope,
        records: list[MemorySearchResult],
        write_mode: WriteMode,
        *,
        keep_newer: bool = False,
    ) -> list[str]:
        """Write new memories, or over those that have the same key; return their ids.

        With `keep_newer` a memory that has been updated later than its record stays.
        """

    @abstractmethod
    async def _asearch(
        self, scope: MemoryScope, query: str, where: Where, limit: int
    ) -> list[MemorySearchResult]:
        """The nearest memories of the scope with their scores, nearest first."""

    @abstractmethod
    async def _afetch(self, scope: MemoryScope, ids: Sequence[str]) -> list[MemorySearchResult]:
        """The memories of these ids that exist; ids of any form are allowed."""

    @abstractmethod
    async def _akeyed(self, scope: MemoryScope, memory_key: str) -> MemorySearchResult | None:
        """The memory that was stored under this key in this very scope."""

    @abstractmethod
    async def _apage(self, scope: MemoryScope, limit: int, cursor: str | None) -> MemoryPage:
        """The memories of the scope after the cursor, in an order that deletion keeps."""

    @abstractmethod
    async def _arevise(
        self, scope: MemoryScope, memory_id: str, content: str, revise: Revision
    ) -> bool:
        """Give a memory a new content; whether the scope has it.

        `revise` makes the new record of the one that is found, as late as can be, or `None` where
        that is to stay. What is not there is not made.
        """

    @abstractmethod
    async def _aremove(self, scope: MemoryScope, ids: Sequence[str]) -> None:
        """Delete memories that were found in the scope."""

    async def _aclose(self) -> None:  # noqa: B027 - a store need not have opened anything
        """Close what this store has opened."""


def _held(
    scope: MemoryScope, found: Iterable[MemorySearchResult], where: Where = MappingProxyType({})
) -> list[MemorySearchResult]:
    """Return the memories that are in the scope and match the filters, by plain equality.

    A database may read an id or a label as an operator, fold its case or trim it. Without this
    check, what it finds then would be shown, counted or deleted.
    """
    return [memory for memory in found if scope.holds(memory) and matches(memory, where)]
