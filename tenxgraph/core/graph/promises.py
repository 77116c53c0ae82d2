"""Promised writes: a tool has answered, its work goes on, and the ledger knows until it is done."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from tenxgraph.core.graph.ledger import Asked, Ledger, Outcome
from tenxgraph.storage.checkpointer import ToolExecution
from tenxgraph.storage.store import BaseStore
from tenxgraph.storage.store.pending_write import PendingWrite

if TYPE_CHECKING:
    from tenxgraph.core.graph.plan import Plan

__all__ = ["CallLog", "Promises"]

logger = logging.getLogger("tenxgraph.graph")

# Seconds that the end of a run waits for what it promised. It goes on in the background after that.
_DEADLINE = 2.0


class CallLog:
    """What one tool call promises. Its row stays `scheduled` until the store has it."""

    def __init__(self, ledger: Ledger, asked: Asked) -> None:
        self._ledger = ledger
        self._asked = asked
        self._promise: dict[str, Any] | None = None
        self._answer: Outcome | None = None
        self._ended: Outcome | None = None
        self._landed = False

    async def begin(self, write: PendingWrite) -> None:
        """Keep the write durably, before it is answered that it is scheduled."""
        self._promise = write.as_json()
        await self._ledger.schedule(self._asked, self._promise, None)

    async def landed(self, write: PendingWrite) -> None:
        """The store has it."""
        self._landed = True
        if self._answer is not None:
            await self._ledger.finish(self._asked, self._answer)

    async def refused(self, write: PendingWrite, reason: str) -> None:
        """The store will never take it."""
        self._ended = Outcome(f"It was not saved: {reason}", is_error=True)
        if self._answer is not None:
            await self._ledger.fail(self._asked, self._ended)

    async def pending(self, config: Mapping[str, Any]) -> list[PendingWrite]:
        """What `Promises.recover` looks up for a whole thread."""
        return []

    async def answer(self, outcome: Outcome) -> None:
        """Record the tool's answer: the end of the call, unless it has promised something."""
        self._answer = outcome
        if self._promise is not None and not self._landed and self._ended is None:
            await self._ledger.schedule(self._asked, self._promise, outcome)
        # It may have landed while that was written; whoever comes last has to say so.
        if self._ended is not None:
            await self._ledger.fail(self._asked, self._ended)
        elif self._promise is None or self._landed:
            await self._ledger.finish(self._asked, outcome)


class Promises:
    """What the tools of a graph have promised, and where it is to be kept.

    Args:
        plan: the graph, whose agents and tools may name stores of their own.
        store: the graph's own store, if it has one.
    """

    def __init__(self, plan: "Plan", store: Any) -> None:
        self._tools = {one.name: one for one in plan.tools() if one.promises_writes}
        self._store = store
        self._named = plan.stores()

    def stores(self) -> list[BaseStore]:
        """Every long-term memory that the graph was given."""
        known = [self._store, *self._named]
        return list({id(store): store for store in known if isinstance(store, BaseStore)}.values())

    async def recover(self, ledger: Ledger) -> int:
        """Carry out what a process that died had promised; return how many writes that are.

        They are begun, not waited for. Carrying out one that had landed changes nothing.
        """
        if not self._tools:
            return 0
        return sum(self._resubmit(row, ledger) for row in await ledger.scheduled())

    def _resubmit(self, row: ToolExecution, ledger: Ledger) -> bool:
        tool = self._tools.get(row.tool_name)
        store = None if tool is None else tool.store or self._store
        promise = row.result.get("promise") if isinstance(row.result, Mapping) else None
        if promise is None or not isinstance(store, BaseStore):
            return False
        try:
            write = PendingWrite(**promise)
        except TypeError:
            # Written by another version of the library: left to it, and no reason not to run.
            logger.warning(
                "Thread %r: a promised memory write is not understood: %r",
                ledger.thread_id,
                promise,
            )
            return False
        if any(one == write for one in store.writes.on_their_way().values()):
            return False  # this very process has promised it, and is about to keep it
        store.writes.resubmit(write, _RowLog(ledger, row))
        return True

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


class _RowLog:
    """Ends a row that another process left `scheduled`."""

    def __init__(self, ledger: Ledger, row: ToolExecution) -> None:
        self._ledger = ledger
        self._row = row

    async def begin(self, write: PendingWrite) -> None:
        """It has begun long ago."""

    async def landed(self, write: PendingWrite) -> None:
        answer = Outcome.of(self._row)
        if answer is None:
            # It died before it answered: it is asked once more, and promises the same once more.
            await self._ledger.amend(self._row, "failed", None)
        else:
            await self._ledger.amend(self._row, "finished", answer.as_json())

    async def refused(self, write: PendingWrite, reason: str) -> None:
        told = Outcome(f"It was not saved: {reason}", is_error=True)
        await self._ledger.amend(self._row, "failed", told.as_json())

    async def pending(self, config: Mapping[str, Any]) -> list[PendingWrite]:
        return []
