"""CompiledGraph: a graph that is ready to run, over a checkpointer."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Generic, Never, Self, cast

from tenxgraph._other_names import OtherNames, refuse_other_keywords
from tenxgraph._sync import closing_twin, sync_iterator_twin, sync_twin
from tenxgraph.core.graph.chunks import Chunk, Emit
from tenxgraph.core.graph.ledger import Ledger
from tenxgraph.core.graph.opening import Input
from tenxgraph.core.graph.plan import Plan
from tenxgraph.core.graph.promises import Promises
from tenxgraph.core.graph.run import Run
from tenxgraph.core.graph.run_result import RunResult
from tenxgraph.core.graph.runs import Runs
from tenxgraph.core.graph.settings import Settings
from tenxgraph.core.graph.shield import over
from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.checkpointer import BaseCheckpointer
from tenxgraph.storage.scope import STATE_TYPE_KEY, checked_id
from tenxgraph.storage.store.memory_scope import MemoryScope

__all__ = ["CompiledGraph"]

logger = logging.getLogger("tenxgraph.graph")


# Seconds that runs have to end in when their graph is closed.
_FAREWELL = 10.0


class CompiledGraph(OtherNames, Generic[StateT]):
    """Runs a graph. Two of them in one process share nothing.

    Made by `StateGraph.compile`. The config of every call names the thread: `thread_id` (made up,
    and returned, if absent), `user_id` (`"anonymous"` if absent), `run_id`, `recursion_limit`
    (25), `node_timeout` (900 s), `tool_timeout` (300 s), `lease_timeout` (30 s, after which a
    process elsewhere that says nothing is taken for dead), `thread_name`, `thread_meta`,
    `on_pending` (`"error"` or `"cancel"`). The caller's dict is not changed.
    """

    def __init__(self, plan: Plan, checkpointer: BaseCheckpointer[Any], store: Any) -> None:
        self._plan = plan
        self.checkpointer = checkpointer
        self.store = store
        self._runs = Runs()
        checkpointer.bind_state_type(type(plan.initial))

    @property
    def state_type(self) -> type[StateT]:
        """The class of the graph's state."""
        return cast("type[StateT]", type(self._plan.initial))

    async def ainvoke(
        self,
        /,
        input: Any = None,
        config: Mapping[str, Any] | None = None,
        *,
        emit: Emit | None = None,
        **other: Never,
    ) -> RunResult[StateT]:
        """Run on a thread, to the end, a pause or a stop.

        Args:
            input: `{"messages": [...]}`, with `state` (a dict of state fields) or `resume` (the
                answer to an interrupt) beside or instead; or a message, or a string, which is the
                user's. A thread whose run was cut short goes on where it was.
            config: names the thread.
            other: nothing; what other libraries take is refused with its name here.
            emit: told of each chunk that `astream` would yield, at once, from whatever thread it
                comes from. What it raises is logged, and changes nothing.

        Returns:
            `messages` (what this run added after the input), `state`, `interrupts` (questions that
            wait), `usage` (tokens), `thread_id` and `run_id`.

        Raises:
            StaleStateError: another run committed on the thread first. The caller may try again.
            NodeError: a node raised or took too long; the thread has the status `error`, and goes
                on at that node when it is run without a new message.
            GraphRecursionError: the run took more than `recursion_limit` steps.
            PendingInterruptError: the thread waits for an answer.
            InputError: the input does not fit the graph or the thread. Nothing has run.
            ValueError: the config is none; says what of it.
            StorageError: the database, or what is stored there, is not as it should be.
        """
        refuse_other_keywords("ainvoke", other)
        return await self._execute(
            Input.of(input), Settings.of(config), _guarded(emit) if emit else _nowhere
        )

    async def astream(
        self,
        /,
        input: Any = None,
        config: Mapping[str, Any] | None = None,
        **other: Never,
    ) -> AsyncGenerator[Chunk, None]:
        """Run like `ainvoke`, and tell what happens while it does.

        A consumer that goes away (`aclose()` of the generator, or a cancelled task) stops the run
        after what is being written. The thread ends `stopped`, and can go on.
        """
        refuse_other_keywords("astream", other)
        chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        given, settings = Input.of(input), Settings.of(config)
        loop, home = asyncio.get_running_loop(), threading.get_ident()

        def emit(chunk: Chunk) -> None:
            if threading.get_ident() == home:
                chunks.put_nowait(chunk)
            else:  # a sync node emits from its thread
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

        async def run() -> None:
            try:
                await self._execute(given, settings, emit)
            finally:
                chunks.put_nowait(None)

        running = asyncio.ensure_future(run())
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
            await running
        finally:
            running.cancel()
            await over(running)
            if not running.cancelled():
                running.exception()

    async def astop(self, config: Mapping[str, Any]) -> bool:
        """Stop the run on a thread, in whatever process it goes on; whether there is the thread.

        The node in progress is cancelled; the thread ends `stopped`, and can go on.
        """
        settings = Settings.of(config)
        known = await self.checkpointer.arequest_stop(dict(settings.config))
        self._runs.stop(_key(settings))
        return known

    async def aget_state(self, config: Mapping[str, Any]) -> StateT | None:
        """The newest state of a thread, or `None`."""
        own = {**Settings.of(config).config, STATE_TYPE_KEY: type(self._plan.initial)}
        state: StateT | None = await self.checkpointer.aget_state(own)
        return state

    async def arecover(self, config: Mapping[str, Any]) -> int:
        """Carry out the memory writes that a dead process had promised on a thread.

        The next run on the thread does it by itself; this is for threads that nobody talks to
        any more.

        Returns:
            How many writes there were. When this returns they have landed or failed, or were too
            slow and go on in the background.
        """
        settings = Settings.of(config)
        promises = Promises(self._plan, self.store)
        count = await promises.recover(Ledger(self.checkpointer, settings.config))
        await promises.flush(str(settings.config["thread_id"]))
        return count

    async def aforget_memory(self, config: Mapping[str, Any]) -> int:
        """Forget all that is remembered of a user, in every store that the graph was given.

        What was promised on the user's threads, and has not landed because a process died or a
        store was away, is taken back too: after `forget_memory` of a store alone, it would land
        when the thread next runs.

        Args:
            config: the user: `user_id`.

        Returns:
            How many memories there were.

        Raises:
            ValueError: the config names no user, or more than the user. To forget what a user
                shares with an agent alone, call `aforget_memory` of the store.
        """
        for name in ("agent_id", "app_id"):
            if name in config:
                raise ValueError(
                    f"The config has `{name}`, but this forgets all that is remembered of the "
                    "user. Leave it out, or call `aforget_memory` of the store."
                )
        user = {"user_id": checked_id(config, "user_id")}
        promises, cursor = Promises(self._plan, self.store), None
        while True:
            threads = await self.checkpointer.alist_threads(dict(config), limit=100, cursor=cursor)
            for thread in threads:
                of_thread = {**config, "thread_id": thread.thread_id}
                await promises.forget(Ledger(self.checkpointer, of_thread), MemoryScope.of(user))
            if not threads or threads.cursor is None:
                break
            cursor = threads.cursor
        return sum([await store.aforget_memory(user) for store in promises.stores()])

    async def aclose(self) -> None:
        """Stop the runs, land the promised memory writes, close stores, models and checkpointer.

        Runs that go on end as `stopped`, and can be taken up; one that does not end in ten seconds
        is not waited for. All that the graph, its agents and its tools were given is closed, even
        if closing one of them fails. A store that others use too opens again by itself.
        """
        await self._runs.end(_FAREWELL)
        async with AsyncExitStack() as closing:  # the last one in is closed first
            closing.push_async_callback(self.checkpointer.aclose)
            for node in self._plan.nodes.values():
                close = getattr(node.function, "aclose", None)
                if close is not None:
                    closing.push_async_callback(close)
            closing.push_async_callback(Promises(self._plan, self.store).aclose)

    def draw(self) -> str:
        """The graph as Mermaid text."""
        return self._plan.mermaid()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _execute(self, given: Input, settings: Settings, emit: Emit) -> RunResult[StateT]:
        run = Run(self._plan, self.checkpointer, self.store, settings, emit)
        with self._runs.going_on(run, _key(settings)):
            return cast("RunResult[StateT]", await run.execute(given))

    invoke = sync_twin(ainvoke)
    stream = sync_iterator_twin(astream)
    stop = sync_twin(astop)
    get_state = sync_twin(aget_state)
    recover = sync_twin(arecover)
    forget_memory = sync_twin(aforget_memory)
    close = closing_twin(aclose)


def _key(settings: Settings) -> tuple[str, str]:
    return str(settings.config["user_id"]), str(settings.config["thread_id"])


def _guarded(emit: Emit) -> Emit:
    """A run is none of a listener's troubles."""

    def told(chunk: Chunk) -> None:
        try:
            emit(chunk)
        except Exception:
            logger.exception("Whoever listens to a run failed at a chunk of type %r", chunk.type)

    return told


def _nowhere(_chunk: Chunk) -> None:
    """Nobody listens."""
