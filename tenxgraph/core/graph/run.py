"""Run: the one loop. A write at the start, one after every node, and nothing half done."""

import asyncio
import contextlib
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any

from tenxgraph.core.exceptions import (
    GraphRecursionError,
    NodeError,
    RunInProgressError,
    SerializationError,
    StaleStateError,
    StorageError,
    TenxGraphError,
)
from tenxgraph.core.graph import lease, pauses
from tenxgraph.core.graph.answer import extended, message_ids
from tenxgraph.core.graph.chunks import Chunk, Emit
from tenxgraph.core.graph.command import Command
from tenxgraph.core.graph.edges import END, START
from tenxgraph.core.graph.interrupts import Asking, Paused, asking, interrupt_id, new_token
from tenxgraph.core.graph.ledger import Ledger
from tenxgraph.core.graph.node_call import NodeCall, StopRequestedError
from tenxgraph.core.graph.opening import Input, is_done, open_run
from tenxgraph.core.graph.plan import Plan
from tenxgraph.core.graph.promises import PromiseLog, Promises
from tenxgraph.core.graph.settings import Settings
from tenxgraph.core.graph.shield import unbroken
from tenxgraph.core.graph.thread import Thread
from tenxgraph.core.graph.update import Joined, join
from tenxgraph.core.state import AgentState, Interrupt, Message, TokenUsages
from tenxgraph.storage.checkpointer import BaseCheckpointer
from tenxgraph.storage.scope import RUN_KEY, STATE_TYPE_KEY
from tenxgraph.storage.store.pending_write import PENDING_LOG_KEY

__all__ = ["Run"]


class Run:
    """One run of a graph on one thread."""

    def __init__(
        self,
        plan: Plan,
        checkpointer: BaseCheckpointer[Any],
        store: Any,
        settings: Settings,
        emit: Emit,
    ) -> None:
        self._plan = plan
        self._store = store
        self._promises = Promises(plan, store)
        self._settings = settings
        self._emit = emit
        own = {**settings.config, STATE_TYPE_KEY: type(plan.initial)}
        self._thread = Thread(checkpointer, own, settings.lease_timeout)
        self._node = ""
        """The node that runs next."""
        self._added: dict[str, Message] = {}
        self._call: NodeCall | None = None
        """The node that is running."""
        self._ledger: Ledger
        self._log: PromiseLog | None = None
        """What this step promises to the long-term memory."""
        self._stopping = False
        self.over: Future[None] = Future()
        """Done when the run is over; may be waited for in any event loop."""

    @property
    def _state(self) -> AgentState:
        """The state as it was last written."""
        return self._thread.written or self._plan.initial

    async def execute(self, given: Input) -> dict[str, Any]:
        """Run to the end, to a pause or to a stop, and return the output.

        What was promised to the long-term memory on the way is waited for, if not for ever.

        Raises:
            StaleStateError: another run has committed on this thread. Nothing more of this one is
                in it. A `RunInProgressError`: another run is at work on it.
            NodeError: a node raised, or took longer than `node_timeout`.
        """
        thread_id = str(self._settings.config["thread_id"])
        try:
            await self._go(given)
        except Exception:
            await self._promises.flush(thread_id)
            raise
        await self._promises.flush(thread_id)
        return self._output()

    async def _go(self, given: Input) -> None:
        try:
            await self._begin(given)
            while self._state.execution_meta.status == "running":
                await self._step()
        except asyncio.CancelledError:
            # Whoever cancels must see it cancelled; the thread can go on as it is, too.
            with contextlib.suppress(StorageError):
                await unbroken(self._finish("stopped"))
            raise
        except StaleStateError:
            raise
        except StorageError as error:
            if isinstance(error, SerializationError):
                await self._fail(error)
            raise
        except Exception as error:
            await self._fail(error)
            raise
        finally:
            self._thread.close()

    def stop(self) -> None:
        """Cancel the node that is running, and end the run as stopped; from any thread."""
        self._stopping = True
        call = self._call
        if call is not None:
            call.stop()

    async def _begin(self, given: Input) -> None:
        """Read the thread, let the input join it, and write once, before any node runs."""
        stored = await self._thread.read()
        try:
            await self._claim(stored, given)
        except RunInProgressError:
            raise
        except StaleStateError:
            # An entry that a crash left behind in the cache: nothing has run yet, so look again.
            if not self._thread.from_cache:
                raise
            await self._claim(await self._thread.read_past_cache(), given)
        await self._recall()
        if self._thread.stop_requested:
            # It was meant for an earlier run.
            await self._thread.clear_stop_request()

    async def _claim(self, stored: AgentState | None, given: Input) -> None:
        """Begin, also where a run was at work that is over, or has not been heard of in time."""
        if stored is not None and is_done(stored, given, self._settings):
            await self._repeat(stored, given)
            return
        try:
            await self._open(stored, given)
        except RunInProgressError as busy:
            alive = lease.is_alive(busy.holder)
            if alive or (alive is None and not busy.expired):
                raise
            self._thread.take_over(busy)
            await self._open(stored, given)

    async def _repeat(self, done: AgentState, given: Input) -> None:
        """Let the output be what the call came to before its caller heard of it."""
        if self._thread.from_cache:
            # An entry that a crash left behind may show a pause that is over.
            await self._claim(await self._thread.read_past_cache(), given)
            return
        self._thread.written = done
        self._node = done.execution_meta.current_node
        self._announce_pause()

    async def _recall(self) -> None:
        """Have in the output what an earlier attempt of this very call has added."""
        known = message_ids(self._state.execution_meta, self._settings.run_id)
        self._added = await self._thread.messages(known)

    async def _first_node(self, state: AgentState) -> str:
        name = await self._plan.after(START, self._given(state))
        self._plan.node(name)
        return name

    async def _open(self, stored: AgentState | None, given: Input) -> None:
        ledger = Ledger(self._thread.checkpointer, self._thread.config_for_nodes())
        opening = await open_run(
            self._plan, stored, given, self._settings, ledger, self._first_node
        )
        state = opening.state
        if opening.is_new:
            state = pauses.paused(state, pauses.before(self._plan, opening.node, state))
        await self._thread.write(state, opening.messages)
        # Written once, it knows the thread's life.
        self._ledger = Ledger(self._thread.checkpointer, self._thread.config_for_nodes())
        if stored is not None:
            await self._promises.recover(self._ledger)
        self._node = opening.node
        self._announce_pause()

    async def _step(self) -> None:
        """Run one node and write what it left, with the name of the next one."""
        if self._stopping or self._thread.stop_requested:
            await self._stop()
            return
        meta = self._state.execution_meta
        if meta.step >= self._settings.recursion_limit:
            message = (
                f"The run took {meta.step} steps without an end. If it needs more, raise "
                "`recursion_limit` in the config."
            )
            raise GraphRecursionError(message)
        self._log = self._promises.log(self._ledger, self._node, meta.run_id, meta.step)
        try:
            answer = await self._call_node()
        except Paused as paused:
            await self._pause(paused.interrupts)
        except StopRequestedError:
            await self._stop()
        else:
            await self._leave_node(answer)

    async def _call_node(self) -> Any:
        """Call the node, so that a stop can reach it."""
        node = self._plan.node(self._node)
        self._call = NodeCall(
            self._node,
            self._settings.config["thread_id"],
            self._asking(node(self._given(self._state))),
            self._settings.node_timeout,
            self._thread.should_stop,
            min(0.5, self._settings.lease_timeout / 12),
        )
        try:
            return await self._call.result()
        finally:
            self._call = None

    async def _asking(self, call: Awaitable[Any]) -> Any:
        """Let the node ask, and know the answers that it has got."""
        meta = self._state.execution_meta
        key = interrupt_id(meta.interrupt_token, self._node, meta.step)
        asking.set(Asking(key, self._node, meta.answers))
        return await call

    def _given(self, state: AgentState) -> dict[str, Any]:
        """What nodes and conditions may ask for. The state is theirs to change, and to return."""
        config = self._thread.config_for_nodes()
        # The same on every attempt, whatever this call's is.
        config["run_id"] = config[RUN_KEY] = (
            self._state.execution_meta.run_id or self._settings.run_id
        )
        if self._log is not None:
            config[PENDING_LOG_KEY] = self._log
        return {
            "state": state.model_copy(update={"context": list(state.context)}),
            "config": config,
            "store": self._store,
            "checkpointer": self._thread.checkpointer,
            "emit": self._emit_for_node,
        }

    def _emit_for_node(self, data: Any) -> None:
        """Tell what a node has to tell: a chunk of its own making, or anything else as data."""
        chunk = data if isinstance(data, Chunk) else Chunk(type="custom", data=data)
        self._emit(chunk if chunk.node else chunk.model_copy(update={"node": self._node}))

    async def _leave_node(self, answer: Any) -> None:
        command = answer if isinstance(answer, Command) else Command(update=answer)
        try:
            joined = join(self._state, command.update)
        except TenxGraphError as error:
            raise NodeError(f"Node {self._node!r}: {error}", node=self._node) from error
        following = command.goto or await self._plan.after(self._node, self._given(joined.state))
        if following != END:
            self._plan.node(following)
        await self._write_step(joined, following)

    async def _write_step(self, joined: Joined, following: str) -> None:
        meta = extended(self._state.execution_meta, joined.messages)
        over = following == END
        state = joined.state.model_copy(
            update={
                "execution_meta": meta.model_copy(
                    update={
                        "current_node": self._node if over else following,
                        "step": meta.step + 1,
                        "status": "completed" if over else "running",
                        "answers": {},
                        "interrupt_token": "" if over else new_token(),
                    }
                )
            }
        )
        if not over:
            questions = pauses.planned(self._plan, self._node, following, state)
            state = pauses.paused(state, questions)
        await self._thread.write(state, joined.messages)
        self._added.update((message.message_id, message) for message in joined.messages)
        for message in joined.messages:
            self._emit(Chunk(type="message", node=self._node, message=message))
        self._emit(Chunk(type="update", node=self._node))
        self._node = following
        self._announce_pause()

    async def _pause(self, interrupts: tuple[Interrupt, ...]) -> None:
        state = await self._thread.as_written() or self._state
        await self._thread.write(pauses.paused(state, interrupts))
        self._announce_pause()

    def _announce_pause(self) -> None:
        meta = self._state.execution_meta
        if meta.status == "interrupted":
            self._emit(Chunk(type="interrupt", node=self._node, interrupts=tuple(meta.interrupts)))

    async def _stop(self) -> None:
        await self._finish("stopped")
        await self._thread.clear_stop_request()

    async def _finish(self, status: str, error: str | None = None) -> None:
        """The final write of a run that ends before its last node, without what that has done."""
        state = await self._thread.as_written()
        if state is None or state.execution_meta.status != "running":
            return
        meta = state.execution_meta.model_copy(update={"status": status, "error": error})
        await self._thread.write(state.model_copy(update={"execution_meta": meta}))

    async def _fail(self, error: Exception) -> None:
        """Record the error with the state as it was before the node that failed."""
        self._emit(Chunk(type="error", node=self._node, text=f"{type(error).__name__}: {error}"))
        try:
            await self._finish("error", f"{type(error).__name__}: {error}")
        except StorageError as unrecorded:
            error.add_note(f"The failure could not be recorded on the thread: {unrecorded}")

    def _output(self) -> dict[str, Any]:
        meta = self._state.execution_meta
        messages = list(self._added.values())
        usage = sum((m.usages for m in messages if m.usages is not None), start=TokenUsages())
        self._emit(Chunk(type="end", node=meta.current_node, data=meta.status))
        return {
            "messages": messages,
            "state": self._state,
            "interrupts": list(meta.interrupts),
            "usage": usage,
            "thread_id": self._settings.config["thread_id"],
            "run_id": self._settings.run_id or meta.run_id,
        }
