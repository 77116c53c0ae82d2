"""Promised writes: answered as scheduled, and in the ledger until the long-term memory has them."""

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from tenxgraph.core.exceptions import StaleStateError
from tenxgraph.core.graph.ledger import Ledger
from tenxgraph.storage.checkpointer import ToolExecution
from tenxgraph.storage.store import BaseStore
from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.pending_write import PendingWrite

if TYPE_CHECKING:
    from tenxgraph.core.graph.plan import Plan

__all__ = ["PromiseLog", "Promises"]

logger = logging.getLogger("tenxgraph.graph")

# What stands in the row of a promise that was taken back.
_FORGOTTEN = {"refused": "forgotten"}
_KEYS = UUID("6a5b8f5e-1d0e-4f6b-8f43-2c1d6f0a9b37")

# Seconds that the end of a run waits for what it promised. It goes on in the background after that.
_DEADLINE = 2.0


class Promise:
    """One promised write, and its own row in the ledger: `scheduled` until the store has it."""

    def __init__(
        self, write: PendingWrite, row: ToolExecution, ledger: Ledger, is_new: bool = True
    ) -> None:
        self.write = write
        self.is_new = is_new
        self._row = row
        self._ledger = ledger

    async def landed(self) -> bool:
        """The store has it; of what it says, nothing is kept here. `False` if it was forgotten."""
        known = await self._ledger.again(self._row)
        if known is not None and known.result == _FORGOTTEN:
            return False
        await self._amend("finished", None)
        return True

    async def refused(self, reason: str) -> None:
        """The store will never take it."""
        await self._amend("failed", {"refused": reason})

    async def _amend(self, status: str, result: Any) -> None:
        # A thread that has been deleted meanwhile took the row along.
        with contextlib.suppress(StaleStateError):
            await self._ledger.amend(self._row, status, result)


class PromiseLog:
    """What one call of a node or of a tool promises.

    Args:
        ledger: of the thread.
        stores: the long-term memories that another process will find, too, by name.
        asker: the name of the node or tool.
        key: JSON values that are the same on every attempt of this call, and for no other. A tool
            may be given its key as its idempotency key.
    """

    def __init__(
        self, ledger: Ledger, stores: Mapping[str, BaseStore], asker: str, key: Any
    ) -> None:
        self._ledger = ledger
        self._stores = stores
        self._asker = asker
        self._key = key
        self._kept: Counter[str] = Counter()

    def within(self, tool: str, key: str) -> "PromiseLog":
        """What one tool call of a node promises."""
        return PromiseLog(self._ledger, self._stores, tool, key)

    async def keep(self, write: PendingWrite, store: BaseStore) -> Promise | None:
        """Write a promise down, before it is given; `None` if nobody could keep it later.

        A node that is replayed promises the same once more. That one has landed or is on its way,
        and does not undo what has been changed since.
        """
        name = next((name for name, known in self._stores.items() if known is store), None)
        if name is None:
            logger.warning(
                "%s of thread %r promises a memory write through a store that the graph was not "
                "given. It is lost if the process is killed: pass the store to `compile(store=)`.",
                self._asker,
                self._ledger.thread_id,
            )
            return None
        key = self._key_of(write)
        known = await self._ledger.promised(key)
        if known is not None and (known.status != "failed" or known.result == _FORGOTTEN):
            return Promise(write, known, self._ledger, is_new=False)
        if write.idempotency_key in (None, self._key):
            # The key of the call would make one memory of all that the call writes.
            write = dataclasses.replace(write, idempotency_key=key)
        promised = {"store": name, "promise": write.as_json()}
        row = await self._ledger.schedule(key, self._asker, promised)
        return Promise(write, row, self._ledger)

    def _key_of(self, write: PendingWrite) -> str:
        """Of what is written and how often this call has written it: not of when."""
        said = {k: v for k, v in write.as_json().items() if k != "asked_at"}
        text = json.dumps(said, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._kept[digest] += 1
        return str(uuid5(_KEYS, json.dumps([self._key, digest, self._kept[digest]])))

    def __deepcopy__(self, _memo: Any) -> "PromiseLog":
        """What a copied config promises is promised here, too."""
        return self


class Promises:
    """The long-term memories of a graph, and what was promised through them.

    Args:
        plan: the graph, whose agents and tools may name stores of their own.
        store: the graph's own store, if it has one.
    """

    def __init__(self, plan: "Plan", store: Any) -> None:
        named = {"graph": store, **plan.stores()}
        self._named = {name: one for name, one in named.items() if isinstance(one, BaseStore)}

    def stores(self) -> list[BaseStore]:
        """Every long-term memory that the graph was given."""
        return list({id(store): store for store in self._named.values()}.values())

    def log(self, ledger: Ledger, node: str, *call: Any) -> PromiseLog:
        """Where a call of a node keeps what it promises."""
        return PromiseLog(ledger, self._named, node, [ledger.thread_id, node, *call])

    async def recover(self, ledger: Ledger) -> int:
        """Carry out what a process that died had promised; return how many writes that are.

        They are begun, not waited for. One that had landed, or whose memory has been changed
        since it was given, changes nothing.
        """
        if not self._named:
            return 0
        return sum(self._resubmit(row, ledger) for row in await ledger.scheduled())

    def _resubmit(self, row: ToolExecution, ledger: Ledger) -> bool:
        kept = row.result if isinstance(row.result, Mapping) else {}
        store = self._named.get(str(kept.get("store")))
        try:
            write = PendingWrite(**kept["promise"])
        except (KeyError, TypeError):
            # Written by another version of the library: left to it, and no reason not to run.
            logger.warning(
                "Thread %r: a promised memory write is not understood: %r", ledger.thread_id, kept
            )
            return False
        if store is None:
            logger.warning(
                "Thread %r: a memory write was promised through the store %r, which this "
                "graph does not have. It waits for a graph that has it: %s",
                ledger.thread_id,
                kept.get("store"),
                write,
            )
            return False
        if any(one == write for one in store.writes.on_their_way().values()):
            return False  # this very process has promised it, and is about to keep it
        store.writes.resubmit(Promise(write, row, ledger))
        return True

    async def forget(self, ledger: Ledger, scope: MemoryScope) -> None:
        """Take back what was promised to a scope on a thread, and what the ledger says of it."""
        for row in await ledger.scheduled():
            kept = row.result if isinstance(row.result, Mapping) else {}
            promise = kept.get("promise") or {}
            config = promise.get("config") or {}
            if scope.owned().items() <= config.items():
                await ledger.amend(row, "failed", _FORGOTTEN)

    async def flush(self, thread_id: str) -> None:
        """Wait, but not for ever, until what this thread was promised has landed."""
        waiting = [
            asyncio.wrap_future(future)
            for store in self.stores()
            for future, write in store.writes.on_their_way().items()
            if write.config.get("thread_id") == thread_id
        ]
        if waiting:
            await asyncio.wait(waiting, timeout=_DEADLINE)

    async def aclose(self) -> None:
        """Land everything, and close the stores; each of them, even if another fails."""
        async with AsyncExitStack() as closing:
            for store in self.stores():
                closing.push_async_callback(store.aclose)
