"""Background writes that are not lost: kept, ordered, repeated, and waited for before the end."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenxgraph.core.exceptions import StoreMismatchError
from tenxgraph.storage.store import writer_thread
from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.pending_write import (
    KeptWrite,
    MissingMemoryError,
    PendingLog,
    PendingWrite,
)
from tenxgraph.storage.store.promised import carry_out, take_back

if TYPE_CHECKING:
    from tenxgraph.storage.store.base import BaseStore

__all__ = [
    "FailedWrite",
    "PendingWrites",
    "WriteStats",
]

logger = logging.getLogger("tenxgraph.store")

_RETRY_DELAYS = (0.1, 0.5, 2.0)
_ATTEMPT_TIMEOUT = 60.0
_AT_ONCE = 8
_KEPT_FAILURES = 100
_KEPT_SCOPES = 10_000


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """A write that was promised and did not land.

    Attributes:
        write: what was promised.
        reason: why it did not land.
        kept: whether a log still has it, so that it will be carried out later.
    """

    write: PendingWrite
    reason: str
    kept: bool = False


@dataclass(slots=True)
class WriteStats:
    """What became of a store's background writes since the process began."""

    scheduled: int = 0
    landed: int = 0
    retried: int = 0
    failed: int = 0


_Promised = tuple[PendingWrite, KeptWrite | None]


@dataclass(frozen=True, slots=True)
class _Place:
    """A write's place in the order, taken before it is known whether it will be promised."""

    promised: "Future[_Promised | None]"
    done: "Future[None]"
    loop: asyncio.AbstractEventLoop | None
    """Where it is being promised."""

    def take(self, promise: "_Promised | None") -> None:
        """Say what was promised; once."""
        with contextlib.suppress(InvalidStateError):
            self.promised.set_result(promise)

    def leave(self) -> None:
        """Let those behind come forward, if nothing was promised."""
        self.take(None)


class PendingWrites:
    """The background writes of one store.

    Writes of one scope that name a memory, by key or by id, are carried out one after the other in
    the order in which they were submitted. New memories without a key depend on nothing and go
    side by side. They run in a thread of their own, so they outlive the event loop that asked for
    them, and are waited for when the interpreter ends.

    Args:
        store: where the writes go.
        limit: how many may be on their way; a further one waits for room before it is accepted.
            What a dead process has left comes on top.
    """

    def __init__(self, store: "BaseStore", limit: int = 1_000) -> None:
        self.stats = WriteStats()
        self._store = store
        self._limit = limit
        self._failures: dict[MemoryScope, deque[FailedWrite]] = {}
        self.forget_parent()
        writer_thread.watch(self)

    def forget_parent(self) -> None:
        """Begin with nothing on its way, as a forked child does: its parent carries those out."""
        self._open: dict[Future[None], PendingWrite] = {}
        self._tails: dict[MemoryScope, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._places: set[_Place] = set()
        self._keeping: set[asyncio.Future[None]] = set()
        self._waiters: deque[Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._open)

    async def submit(self, write: PendingWrite, log: PendingLog | None = None) -> None:
        """Promise a write: once this returns, it is carried out, or its failure is made known."""
        while self._is_full():
            await self._room()
        # Its place comes before the log, which takes its time: calls that follow come after it.
        place = self._take_place(write, asyncio.get_running_loop())
        if log is None:
            self._promise(place, write, None)
            return
        # Whoever is cancelled meanwhile leaves a promise that is kept, and not half of one.
        keeping = asyncio.ensure_future(self._keep(place, write, log))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._kept)
        await asyncio.shield(keeping)

    def _is_full(self) -> bool:
        self._leave_orphans()
        return len(self._open) >= self._limit

    async def _room(self) -> None:
        """Wait until somebody leaves; who waits longest is let in first."""
        waiter: Future[None] = Future()
        self._waiters.append(waiter)
        if not self._is_full():
            self._let_in()  # somebody has left since it was looked at
        try:
            await asyncio.wrap_future(waiter)
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._let_in()  # let in, and gone: the next one
            raise

    def _let_in(self) -> None:
        while self._waiters:
            with contextlib.suppress(InvalidStateError):  # gone while it waited
                self._waiters.popleft().set_result(None)
                return

    def _leave_orphans(self) -> None:
        """Free the places of those whose event loop was closed while they were being promised."""
        for place in list(self._places):
            if place.loop is not None and place.loop.is_closed():
                place.leave()

    def _kept(self, keeping: "asyncio.Future[None]") -> None:
        self._keeping.discard(keeping)
        if not keeping.cancelled():
            keeping.exception()  # whoever still waits for it is told

    async def _keep(self, place: "_Place", write: PendingWrite, log: PendingLog) -> None:
        try:
            kept = await log.keep(write, self._store)
            if kept is None:
                self._promise(place, write, None)
            elif kept.is_new:
                self._promise(place, kept.write, kept)
        finally:
            place.leave()

    def resubmit(self, kept: KeptWrite) -> None:
        """Carry out a write that a log has kept, in another process perhaps."""
        self._promise(self._take_place(kept.write), kept.write, kept)

    def _take_place(
        self, write: PendingWrite, loop: asyncio.AbstractEventLoop | None = None
    ) -> "_Place":
        promised: Future[_Promised | None] = Future()
        done = writer_thread.run(self._in_its_turn(write, promised))
        self._open[done] = write
        done.add_done_callback(self._done)
        place = _Place(promised, done, loop)
        self._places.add(place)
        done.add_done_callback(lambda _: self._places.discard(place))
        return place

    def leave_unpromised(self) -> None:
        """Wait no longer for those that nobody has been promised yet: the process ends."""
        for place in list(self._places):
            place.leave()

    def _promise(self, place: "_Place", write: PendingWrite, kept: KeptWrite | None) -> None:
        self.stats.scheduled += 1
        self._places.discard(place)
        if place.done in self._open:
            self._open[place.done] = write
        place.take((write, kept))

    async def flush(self, scope: MemoryScope | None = None, timeout: float | None = None) -> int:
        """Wait for the writes that were submitted so far.

        Args:
            scope: only those that can touch this scope's memories.
            timeout: seconds to wait at most.

        Returns:
            How many are still on their way when the time is up.
        """
        futures = self._futures(scope)
        await self._wait(futures, timeout)
        return sum(not future.done() for future in futures)

    def take_failures(self, scope: MemoryScope) -> list[FailedWrite]:
        """The scope's writes that failed since this was last asked."""
        return list(self._failures.pop(scope, ()))

    def on_their_way(self) -> dict[Future[None], PendingWrite]:
        """A snapshot of what has been submitted and has not ended."""
        return self._open.copy()

    def _futures(self, scope: MemoryScope | None) -> list[Future[None]]:
        self._leave_orphans()
        writes = self._open.copy()
        if scope is None:
            return list(writes)
        # A memory belongs to every scope it names, so a wider or narrower scope may see it too.
        return [future for future, write in writes.items() if _overlap(write.scope, scope)]

    async def _wait(self, futures: list[Future[None]], timeout: float | None) -> None:
        # asyncio.wait, unlike wait_for, leaves the writes alone when the time is up or the caller
        # is cancelled.
        if futures:
            waiting = [asyncio.wrap_future(future) for future in futures]
            await asyncio.wait(waiting, timeout=timeout)

    def _done(self, future: Future[None]) -> None:
        write = self._open.pop(future, None)
        self._let_in()
        if future.cancelled() and write is not None:
            self._fail(FailedWrite(write, "cancelled"))

    async def _in_its_turn(self, write: PendingWrite, promised: "Future[_Promised | None]") -> None:
        async with self._turn(write):
            promise = await asyncio.wrap_future(promised)
            if promise is not None:
                await self._carry_out(*promise)

    async def _carry_out(self, write: PendingWrite, kept: KeptWrite | None) -> None:
        async with self._slots:
            reason, final = await self._attempts(write)
        if reason is None:
            self.stats.landed += 1
        else:
            self._fail(FailedWrite(write, reason, kept=kept is not None and not final))
        if kept is not None and (reason is None or final):
            await self._note(kept, reason)

    @contextlib.asynccontextmanager
    async def _turn(self, write: PendingWrite) -> AsyncIterator[None]:
        """Hold this write's place among the ordered writes of its scope."""
        task = asyncio.current_task()
        if not write.ordered or task is None:
            yield
            return
        scope = write.scope
        before = self._tails.get(scope)
        self._tails[scope] = task
        try:
            if before is not None:
                await asyncio.wait([before])
            yield
        finally:
            if self._tails.get(scope) is task:
                del self._tails[scope]

    async def _attempts(self, write: PendingWrite) -> tuple[str | None, bool]:
        """Why the write did not land (`None` if it did), and whether it never can."""
        for delay in (*_RETRY_DELAYS, None):
            try:
                async with asyncio.timeout(_ATTEMPT_TIMEOUT):
                    await carry_out(self._store, write)
            except (ValueError, MissingMemoryError) as error:
                return _reason(error), True
            except StoreMismatchError as error:
                return _reason(error), False  # it can land once somebody has mended that
            except Exception as error:  # noqa: BLE001 - any store's failure is retried and named
                if delay is None:
                    return _reason(error), False
                self.stats.retried += 1
                await asyncio.sleep(delay)
            else:
                return None, False
        raise AssertionError("unreachable")

    def _fail(self, failed: FailedWrite) -> None:
        self.stats.failed += 1
        if len(self._failures) >= _KEPT_SCOPES:
            self._failures.pop(next(iter(self._failures)), None)
        failures = self._failures.setdefault(failed.write.scope, deque(maxlen=_KEPT_FAILURES))
        failures.append(failed)
        outlook = "is not saved yet" if failed.kept else "is not saved"
        logger.error("A promised memory %s: %s. %s", outlook, failed.write, failed.reason)

    async def _note(self, kept: KeptWrite, reason: str | None) -> None:
        try:
            if reason is not None:
                await kept.refused(reason)
            elif not await kept.landed():
                await take_back(self._store, kept.write)
        except Exception:
            # The write has landed; at worst it is carried out once more, which changes nothing.
            logger.warning(
                "Could not note the end of a memory write: %s", kept.write, exc_info=True
            )


def _overlap(one: MemoryScope, other: MemoryScope) -> bool:
    mine, theirs = one.owned(), other.owned()
    return all(theirs.get(name, value) == value for name, value in mine.items())


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
