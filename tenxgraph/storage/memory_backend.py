"""The backend that keeps its rows in dicts: the same promises, for as long as the process lives."""

import json
import threading
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

from tenxgraph.core.exceptions import StorageError, ThreadOwnershipError
from tenxgraph.storage.backend import (
    Archive,
    ArchivePage,
    Committed,
    Head,
    Lease,
    MessageQuery,
    Ranges,
    StateRow,
    StoredMessage,
    ThreadQuery,
    ToolRow,
    Write,
)
from tenxgraph.storage.guard import check_life, check_write, owns
from tenxgraph.storage.memory_thread import MemoryThread, Row
from tenxgraph.storage.records import StateSnapshot, ThreadInfo, ToolExecution, utc_now
from tenxgraph.storage.scope import Scope

__all__ = ["MemoryBackend"]


class MemoryBackend:
    """Threads in dicts, under one lock; shared by all event loops and threads of the process."""

    def __init__(self) -> None:
        self._threads: dict[str, MemoryThread] = {}
        self._lock = threading.Lock()

    async def setup(self) -> None:
        """There is nothing to set up."""

    async def close(self) -> None:
        """There is nothing to give back; what was stored stays."""

    async def commit(self, scope: Scope, write: Write) -> Committed:
        with self._lock:
            thread = self._threads.get(scope.thread_id)
            check_write(scope, write, thread)
            if thread is None:
                thread = self._threads[scope.thread_id] = MemoryThread(_new_row(scope, write))
            return thread.put(write)

    async def head(self, scope: Scope) -> Head | None:
        with self._lock:
            thread = self._mine(scope)
            return None if thread is None else thread.head()

    async def load_state(self, scope: Scope, version: int | None) -> StateRow | None:
        with self._lock:
            thread = self._mine(scope)
            if thread is None:
                return None
            wanted = max(thread.states, default=0) if version is None else version
            state = thread.states.get(wanted)
            if state is None:
                return StateRow(thread.head(), 0, None, 0)
            return StateRow(thread.head(), wanted, state["state_data"], state["base_seq"])

    async def load_messages(self, scope: Scope, ranges: Ranges) -> list[StoredMessage]:
        with self._lock:
            thread = self._mine(scope)
            if thread is None:
                return []
            wanted = {seq for first, last in ranges for seq in range(first, last + 1)}
            found = (thread.messages[seq] for seq in sorted(wanted & thread.messages.keys()))
            return [_stored(row) for row in found]

    async def list_states(
        self, scope: Scope, limit: int | None, before: int | None
    ) -> list[StateSnapshot]:
        with self._lock:
            thread = self._mine(scope)
            if thread is None:
                return []
            versions = [v for v in thread.states if before is None or v < before]
            return [
                StateSnapshot(
                    thread_id=scope.thread_id,
                    version=version,
                    created_at=thread.states[version]["created_at"],
                    meta=json.loads(thread.states[version]["meta"]),
                )
                for version in sorted(versions, reverse=True)[:limit]
            ]

    async def clear_state(self, scope: Scope) -> Head | None:
        with self._lock:
            thread = self._mine(scope)
            if thread is None:
                return None
            thread.states.clear()
            thread.row["version"] += 1
            return thread.head()

    async def get_message(self, scope: Scope, message_id: str) -> StoredMessage | None:
        with self._lock:
            thread = self._mine(scope)
            seq = None if thread is None else thread.live.get(message_id)
            return None if thread is None or seq is None else _stored(thread.messages[seq])

    async def list_messages(self, scope: Scope, query: MessageQuery) -> list[StoredMessage]:
        with self._lock:
            thread = self._mine(scope)
            if thread is None:
                return []
            live = thread.live
            if query.message_ids is not None:
                live = {one: live[one] for one in query.message_ids if one in live}
            rows = [
                row
                for row in (thread.messages[seq] for seq in live.values())
                if (query.after is None or row["position"] > query.after)
                and (query.before is None or row["position"] < query.before)
            ]
            rows.sort(key=lambda row: row["position"], reverse=query.newest_first)
            end = None if query.limit is None else query.offset + query.limit
            return [_stored(row) for row in rows[query.offset : end]]

    async def delete_message(self, scope: Scope, message_id: str) -> bool:
        with self._lock:
            thread = self._mine(scope)
            if thread is None or thread.live.pop(message_id, None) is None:
                return False
            revisions = [s for s, row in thread.messages.items() if row["message_id"] == message_id]
            for seq in revisions:
                del thread.messages[seq]
            return True

    async def put_thread(self, scope: Scope, info: ThreadInfo, generation: UUID) -> None:
        now = utc_now()
        with self._lock:
            thread = self._threads.get(scope.thread_id)
            if thread is None:
                row = _thread_row(scope, generation, info.thread_name, info.metadata or {}, now)
                self._threads[scope.thread_id] = MemoryThread(row)
                return
            if not owns(scope, thread.user_id):
                raise ThreadOwnershipError(scope.thread_id)
            thread.row["updated_at"] = now
            if info.thread_name is not None:
                thread.row["thread_name"] = info.thread_name
            if info.metadata is not None:
                thread.row["meta"] = json.dumps(info.metadata)

    async def get_thread(self, scope: Scope) -> ThreadInfo | None:
        with self._lock:
            thread = self._mine(scope)
            return None if thread is None else thread.info()

    async def list_threads(self, query: ThreadQuery) -> list[ThreadInfo]:
        with self._lock:
            found = [thread.info() for thread in self._threads.values() if _listed(thread, query)]
        # Two stable sorts: the second key first.
        found.sort(key=lambda info: info.thread_id)
        found.sort(key=lambda info: info.updated_at, reverse=True)
        if query.after is not None:
            moment, thread_id = query.after
            found = [
                info
                for info in found
                if info.updated_at < moment
                or (info.updated_at == moment and info.thread_id > thread_id)
            ]
        end = None if query.limit is None else query.offset + query.limit
        return found[query.offset : end]

    async def delete_thread(self, scope: Scope) -> bool:
        with self._lock:
            if self._mine(scope) is None:
                return False
            del self._threads[scope.thread_id]
            return True

    async def set_stop(self, scope: Scope, requested: bool) -> bool:
        with self._lock:
            thread = self._mine(scope)
            if thread is not None:
                thread.row["stop_requested"] = requested
            return thread is not None

    async def renew_lease(self, scope: Scope, lease: Lease) -> Head | None:
        with self._lock:
            thread = self._mine(scope)
            if thread is None or thread.lease_holder != lease.holder:
                return None
            thread.claim(lease)
            return thread.head()

    async def get_tool(self, scope: Scope, message_id: str, position: int) -> ToolRow | None:
        with self._lock:
            thread = self._mine(scope)
            return None if thread is None else thread.tools.get((message_id, position))

    async def list_tools(self, scope: Scope, status: str | None) -> list[ToolRow]:
        with self._lock:
            thread = self._mine(scope)
            rows = [] if thread is None else list(thread.tools.values())
            return [row for row in rows if status in (None, row.execution.status)]

    async def put_tool(self, scope: Scope, row: ToolRow) -> None:
        with self._lock:
            check_life(scope, self._threads.get(scope.thread_id))
            tools = self._threads[scope.thread_id].tools
            key = (row.execution.message_id, row.execution.position)
            if key in tools:
                first = tools[key].execution.created_at
                row = ToolRow(row.execution.model_copy(update={"created_at": first}), row.result)
            tools[key] = row

    async def read_archive(self, scope: Scope) -> AsyncGenerator[ArchivePage, None]:
        with self._lock:
            thread = self._mine(scope)
            pages = [] if thread is None else thread.pages()
        for page in pages:
            yield page

    async def write_archive(self, scope: Scope, archive: Archive, generation: UUID) -> None:
        with self._lock:
            if scope.thread_id in self._threads:
                message = (
                    f"There is a thread {scope.thread_id!r} already. Import under another "
                    "`thread_id`, or delete that one first with `aclean_thread`."
                )
                raise StorageError(message, code="thread_exists", thread_id=scope.thread_id)
            own = {"thread_id": scope.thread_id, "user_id": scope.user_id, "generation": generation}
            meta = json.dumps(archive.thread["meta"])
            thread = MemoryThread({**archive.thread, **own, "meta": meta})
            thread.messages = {row["seq"]: row for row in archive.messages}
            thread.live = {
                row["message_id"]: row["seq"]
                for row in archive.messages
                if row["replaced_by"] is None
            }
            thread.states = {row["version"]: row for row in archive.states}
            for row in archive.tool_executions:
                result = row.pop("result")
                execution = ToolExecution(**row)
                key = (execution.message_id, execution.position)
                thread.tools[key] = ToolRow(execution, result)
            self._threads[scope.thread_id] = thread

    def _mine(self, scope: Scope) -> MemoryThread | None:
        thread = self._threads.get(scope.thread_id)
        return thread if thread is not None and owns(scope, thread.user_id) else None


def _thread_row(scope: Scope, generation: UUID, name: str | None, meta: Any, at: object) -> Row:
    return {
        "thread_id": scope.thread_id,
        "user_id": scope.user_id,
        "thread_name": name,
        "meta": json.dumps(meta),  # as text, so that nobody outside holds a part of it
        "generation": generation,
        "version": 0,
        "last_seq": 0,
        "stop_requested": False,
        "created_at": at,
        "updated_at": at,
    }


def _new_row(scope: Scope, write: Write) -> Row:
    return _thread_row(
        scope, write.new_generation, write.thread_name, dict(write.thread_meta), write.at
    )


def _stored(row: Row) -> StoredMessage:
    return StoredMessage(row["seq"], row["position"], row["data"])


def _listed(thread: MemoryThread, query: ThreadQuery) -> bool:
    if query.isolated and thread.user_id != query.user_id:
        return False
    name = thread.row["thread_name"] or ""
    if query.search and query.search.lower() not in name.lower():
        return False
    meta = json.loads(thread.row["meta"]) if query.filter else {}
    return all(
        key in meta and any(_equal(meta[key], value) for value in values)
        for key, values in query.filter.items()
    )


def _equal(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0, and neither is true."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
