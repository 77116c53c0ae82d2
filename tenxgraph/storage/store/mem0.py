"""A store in Mem0, which brings its own vector store and embeddings."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tenxgraph._optional import require
from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.base import BaseStore, Revision
from tenxgraph.storage.store.mem0_connection import Mem0Config, Mem0Connection, Memory
from tenxgraph.storage.store.mem0_ids import escaped_id, original_id
from tenxgraph.storage.store.memory_scope import (
    MemoryScope,
    checked_scope_id,
    is_derived_id,
    is_memory_id,
)
from tenxgraph.storage.store.query import Where, matches
from tenxgraph.storage.store.records import (
    MemoryPage,
    MemorySearchResult,
    MemoryType,
    WriteMode,
    merged_metadata,
)

__all__ = ["Mem0Store"]

# Mem0 wants a user, an agent or a run for every memory; what belongs to an application alone has
# none of them, so all memories share this run.
_RUN = "tenxgraph"
_LABELS = (
    "agent_id",
    "app_id",
    "memory_type",
    "category",
    "memory_key",
    "thread_id",
    "message_id",
    "tool_call_id",
)
_ANYTHING = "*"
_EVERYTHING = 100_000
_WIDER = 8


class Mem0Store(BaseStore):
    """Keeps memories in Mem0 (`mem0ai`), with Mem0's configuration of database and embedder.

    Texts are stored as they are: Mem0's own extraction of facts by a language model is not used,
    since it may drop, merge or reword what an agent was asked to remember. Scores are Mem0's.

    Mem0 makes the ids of memories itself, so two processes that store one key at the same moment
    may both insert; each then removes the surplus, and one memory stays.

    Mem0 reports usage to its makers unless the environment says `MEM0_TELEMETRY=False` before it
    is imported.

    Args:
        config: a `mem0` `MemoryConfig`, or a dict of the same form.
        app_id: the application that all memories belong to, in addition to the config's scope.

    Raises:
        ImportError: the package `mem0ai` is not installed.
        ValueError: the configuration is wrong, or `app_id` is no id.
    """

    def __init__(self, config: Mem0Config | Mapping[str, Any], app_id: str | None = None) -> None:
        configs = require("mem0.configs.base", extra="mem0", wanted_by="Mem0Store")
        is_dict = isinstance(config, Mapping)
        self._mem0 = Mem0Connection(configs.MemoryConfig(**config) if is_dict else config)
        self._app_id = None if app_id is None else checked_scope_id(app_id, "app_id")
        self._keyed = threading.Lock()

    async def asetup(self) -> None:
        """Open Mem0 and its database."""
        await self._mem0.run(lambda mem0: mem0)

    async def _asave(
        self,
        scope: MemoryScope,
        records: list[MemorySearchResult],
        write_mode: WriteMode,
        *,
        keep_newer: bool = False,
    ) -> list[str]:
        def save(mem0: Memory) -> list[str]:
            own = self._in_app(scope)
            return [self._save(mem0, own, one, write_mode, keep_newer) for one in records]

        return await self._mem0.run(save)

    async def _asearch(
        self, scope: MemoryScope, query: str, where: Where, limit: int
    ) -> list[MemorySearchResult]:
        own = self._in_app(scope)
        return await self._mem0.run(lambda mem0: _nearest(mem0, own, query, where, limit))

    async def _afetch(self, scope: MemoryScope, ids: Sequence[str]) -> list[MemorySearchResult]:
        own = [memory_id for memory_id in ids if is_memory_id(memory_id)]
        items = await self._mem0.run(lambda mem0: [mem0.get(memory_id) for memory_id in own])
        memories = [_memory(item) for item in items if item is not None]
        return [memory for memory in memories if self._in_app(scope).holds(memory)]

    async def _awritten(
        self, scope: MemoryScope, record: MemorySearchResult
    ) -> MemorySearchResult | None:
        own = self._in_app(scope)
        derived = _derived_id(own, record)
        found = await self._mem0.run(lambda mem0: _derived(mem0, own, derived))
        return found[0] if found else None

    async def _akeyed(self, scope: MemoryScope, memory_key: str) -> MemorySearchResult | None:
        derived = self._in_app(scope).id_for("key", memory_key)
        found = await self._mem0.run(lambda mem0: _derived(mem0, self._in_app(scope), derived))
        return found[0] if found else None

    async def _apage(self, scope: MemoryScope, limit: int, cursor: str | None) -> MemoryPage:
        own = self._in_app(scope)
        filters = _filters(own, {})
        # Mem0 has no cursors, so a page is cut from the whole.
        listed = await self._mem0.run(lambda mem0: mem0.get_all(filters=filters, top_k=_EVERYTHING))
        if len(listed["results"]) >= _EVERYTHING:
            raise StoreError(
                f"There are {_EVERYTHING:,} memories or more, which is more than Mem0 lists. Name "
                "a narrower scope, or use a QdrantStore."
            )
        memories = sorted(_held(own, listed["results"]), key=lambda memory: memory.id)
        rest = [memory for memory in memories if memory.id > (cursor or "")]
        page = rest[:limit]
        return MemoryPage(page, page[-1].id if len(rest) > limit else None)

    async def _arevise(
        self, scope: MemoryScope, memory_id: str, content: str, revise: Revision
    ) -> bool:
        old = await self._aone(scope, memory_id)
        new = None if old is None else revise(old)
        if new is not None:
            asked_at = new.updated_at.isoformat()
            kept = {"metadata": new.metadata, "asked_at": asked_at}
            await self._mem0.run(lambda mem0: mem0.update(memory_id, text=content, metadata=kept))
        return old is not None

    async def _aremove(self, scope: MemoryScope, ids: Sequence[str]) -> None:
        def remove(mem0: Memory) -> None:
            for memory_id in ids:
                _remove(mem0, memory_id)

        await self._mem0.run(remove)

    async def _aclose(self) -> None:
        await self._mem0.aclose()

    def _in_app(self, scope: MemoryScope) -> MemoryScope:
        return MemoryScope(scope.user_id, scope.agent_id, scope.app_id or self._app_id)

    def _save(
        self,
        mem0: Memory,
        scope: MemoryScope,
        record: MemorySearchResult,
        write_mode: WriteMode,
        keep_newer: bool,
    ) -> str:
        if not is_derived_id(record.id):
            return _insert(mem0, scope, record, None)
        derived = _derived_id(scope, record)
        with self._keyed:
            return _save_derived(mem0, scope, record, derived, write_mode, keep_newer)


def _derived_id(scope: MemoryScope, record: MemorySearchResult) -> str:
    """What a memory is found by again, as Mem0 makes its ids itself."""
    key = record.memory_key
    return record.id if key is None else scope.id_for("key", key)


def _save_derived(
    mem0: Memory,
    scope: MemoryScope,
    record: MemorySearchResult,
    derived: str,
    write_mode: WriteMode,
    keep_newer: bool,
) -> str:
    """Write the one memory that a key may have, and remove what another process added beside it."""
    existing = _derived(mem0, scope, derived)
    if not existing:
        _insert(mem0, scope, record, derived)
    elif record.memory_key is not None and not (
        keep_newer and existing[0].updated_at > record.updated_at
    ):
        metadata = merged_metadata(existing[0].metadata, record.metadata, write_mode)
        labels = _labels(scope, record, derived) | {"metadata": metadata}
        del labels["created_at"]
        mem0.update(existing[0].id, text=record.content, metadata=labels)
    kept, *surplus = _derived(mem0, scope, derived)
    for memory in surplus:
        _remove(mem0, memory.id)
    return kept.id


def _derived(mem0: Memory, scope: MemoryScope, derived: str) -> list[MemorySearchResult]:
    filters = _filters(scope, {}) | {"derived_id": derived}
    listed = mem0.get_all(filters=filters, top_k=100)
    exact = [item for item in listed["results"] if _told(item).get("derived_id") == derived]
    return sorted(_held(scope, exact), key=lambda memory: memory.id)


def _nearest(
    mem0: Memory, scope: MemoryScope, query: str, where: Where, limit: int
) -> list[MemorySearchResult]:
    """Return the nearest memories of the scope, and look wider until there are enough.

    Mem0's database may find too much for a filter; what is dropped here has taken the place of
    memories that are farther away and fit.
    """
    filters, nearest = _filters(scope, where), []
    for wide in (limit, limit * _WIDER, _EVERYTHING):
        # Mem0's own default is to drop all that scores below 0.1.
        found = mem0.search(query, filters=filters, top_k=wide, threshold=0.0)["results"]
        nearest = [memory for memory in _held(scope, found) if matches(memory, where)]
        if len(nearest) >= limit:
            break
        if len(found) < wide and len(nearest) >= _count(mem0, scope, where, limit):
            break
    return sorted(nearest, key=lambda memory: -memory.score)[:limit]


def _count(mem0: Memory, scope: MemoryScope, where: Where, limit: int) -> int:
    """Return how many memories fit, up to the limit, by a listing.

    Some databases look for the nearest of all users first and filter those (FAISS does), so that a
    search which finds little says nothing about how much there is.
    """
    listed = mem0.get_all(filters=_filters(scope, where), top_k=limit)
    return sum(matches(memory, where) for memory in _held(scope, listed["results"]))


def _insert(
    mem0: Memory, scope: MemoryScope, record: MemorySearchResult, derived: str | None
) -> str:
    added = mem0.add(
        record.content,
        user_id=None if scope.user_id is None else escaped_id(scope.user_id),
        agent_id=None if scope.agent_id is None else escaped_id(scope.agent_id),
        run_id=_RUN,
        metadata=_labels(scope, record, derived),
        infer=False,
    )
    return str(added["results"][0]["id"])


def _remove(mem0: Memory, memory_id: str) -> None:
    if mem0.get(memory_id) is not None:
        mem0.delete(memory_id)


def _labels(scope: MemoryScope, record: MemorySearchResult, derived: str | None) -> dict[str, Any]:
    texts = {name: getattr(record, name) for name in _LABELS if name not in ("agent_id", "app_id")}
    app_id = None if scope.app_id is None else escaped_id(scope.app_id, spaces=True)
    texts |= {"app_id": app_id, "derived_id": derived}
    return {
        "owner": scope.user_id or "",
        "created_at": record.created_at.isoformat(),
        # Mem0 dates a change by when it was made, and not by when it was asked for.
        "asked_at": record.updated_at.isoformat(),
        "metadata": record.metadata,
        **{name: value for name, value in texts.items() if value is not None},
    }


def _filters(scope: MemoryScope, where: Where) -> dict[str, Any]:
    ids = scope.owned().items()
    wanted: dict[str, Any] = {k: escaped_id(v, spaces=k == "app_id") for k, v in ids}
    if not scope.user_id:
        wanted |= {"run_id": _RUN, "owner": ""}
    for name, values in where.items():
        if values == [_ANYTHING]:
            continue  # Mem0 has no filter for this very text; the results are filtered instead
        wanted[name] = values[0] if len(values) == 1 else {"in": values}
    return wanted


def _told(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item.get("metadata") or {}


def _held(scope: MemoryScope, items: Iterable[Mapping[str, Any]]) -> list[MemorySearchResult]:
    """Return those memories that are in the scope by plain equality, whatever Mem0 has found."""
    return [memory for memory in map(_memory, items) if scope.holds(memory)]


def _memory(item: Mapping[str, Any]) -> MemorySearchResult:
    told = _told(item)
    texts = {name: told[name] for name in _LABELS if told.get(name)}
    texts["memory_type"] = MemoryType.parse(texts.get("memory_type")).value
    ids = {"app_id": told.get("app_id"), "user_id": item.get("user_id")}
    ids["agent_id"] = item.get("agent_id") or told.get("agent_id")
    texts |= {name: original_id(str(value)) for name, value in ids.items() if value}
    created = _time(item.get("created_at"))
    updated = told.get("asked_at") or item.get("updated_at")
    return MemorySearchResult(
        id=str(item["id"]),
        content=str(item["memory"]),
        score=1.0 if item.get("score") is None else min(1.0, max(0.0, item["score"])),
        metadata=told.get("metadata") or {},
        created_at=created,
        updated_at=_time(updated) if updated else created,
        **texts,
    )


def _time(value: str | None) -> datetime:
    parsed = datetime.fromisoformat(value) if value else datetime.fromtimestamp(0, UTC)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
