"""Run: the one loop. A write at the start, one after every node, and nothing half done."""

import asyncio
import time
from typing import Any

from tenxgraph.core.exceptions import (
    GraphRecursionError,
    NodeError,
    SerializationError,
    StaleStateError,
    StorageError,
    TenxGraphError,
)
from tenxgraph.core.graph.chunks import Chunk, Emit
from tenxgraph.core.graph.command import Command
from tenxgraph.core.graph.edges import END
from tenxgraph.core.graph.interrupts import Asking, Paused, asking
from tenxgraph.core.graph.opening import Input, open_run
from tenxgraph.core.graph.plan import Plan
from tenxgraph.core.graph.settings import Settings
from tenxgraph.core.graph.thread import Thread
from tenxgraph.core.graph.update import Joined, join
from tenxgraph.core.state import AgentState, Interrupt, Message, TokenUsages
from tenxgraph.storage.checkpointer import BaseCheckpointer

__all__ = ["Run"]

# Seconds between looks at the stop flag while a node takes its time: stops from other processes.
_STOP_POLL = 0.5


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
        self._settings = settings
        self._emit = emit
        self._thread = Thread(checkpointer, settings.config)
        self._node = ""
        """The node that runs next."""
        self._added: dict[str, Message] = {}
        self._node_task: asyncio.Task[Any] | None = None
        self._stopping = False

    @property
    def _state(self) -> AgentState:
        """The state as it was last written."""
        return self._thread.written or self._plan.initial

    async def execute(self, given: Input) -> dict[str, Any]:
        """Run to the end, to a pause or to a stop, and return the output.

        Raises:
            StaleStateError: another run has committed on this thread. Nothing more of this one is
                in it.
            NodeError: a node raised, or took longer than `node_timeout`.
        """
        try:
            await self._begin(given)
            while self._state.execution_meta.status == "running":
                await self._step()
        except asyncio.CancelledError:
            await self._finish("stopped")
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
        return self._output()

    def stop(self) -> None:
        """Cancel the node that is running, and end the run as stopped; from any thread."""
        self._stopping = True
        task = self._node_task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)

    async def _begin(self, given: Input) -> None:
        """Read the thread, let the input join it, and write once, before any node runs."""
        stored = await self._thread.read()
        try:
            await self._open(stored, given)
        except StaleStateError:
            # An entry that a crash left behind in the cache: nothing has run yet, so look again.
            if not self._thread.from_cache:
                raise
            stored = await self._thread.read_past_cache()
            if stored is not None and stored.execution_meta.status == "running":
                raise
            await self._open(stored, given)
        if self._thread.stop_requested:
            # It was meant for an earlier run.
            await self._thread.clear_stop_request()

    async def _open(self, stored: AgentState | None, given: Input) -> None:
        opening = await open_run(self._plan, stored, given, self._settings)
        state = opening.state
        if opening.is_new and opening.node in self._plan.interrupt_before:
            state = self._paused_at(state, (_before(opening.node, state),))
        await self._thread.write(state, opening.messages)
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
        try:
            answer = await self._call_node()
        except Paused as paused:
            await self._pause(paused.interrupts)
        except _StopRequestedError:
            await self._stop()
        else:
            await self._leave_node(answer)

    async def _call_node(self) -> Any:
        """Call the node, within its time, and with an ear for stops."""
        node = self._plan.node(self._node)
        self._node_task = asyncio.ensure_future(self._guarded(node(self._given(self._state))))
        deadline = time.monotonic() + self._settings.node_timeout
        try:
            while not await _done(self._node_task, deadline):
                if await self._thread.is_stop_requested():
                    self.stop()
            if not self._node_task.done():
                message = f"Node {self._node!r} took longer than {self._settings.node_timeout} s."
                raise NodeError(message, node=self._node)
            return self._result(self._node_task)
        finally:
            await _cancelled(self._node_task)
            self._node_task = None

    async def _guarded(self, call: Any) -> Any:
        meta = self._state.execution_meta
        key = f"{self._node}:{meta.step}"
        asking.set(Asking(key, self._node, meta.answers))
        return await call

    def _result(self, task: asyncio.Task[Any]) -> Any:
        if task.cancelled():
            if self._stopping:
                raise _StopRequestedError
            raise NodeError(f"Node {self._node!r} cancelled itself.", node=self._node)
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, Exception) and not isinstance(error, TenxGraphError):
            message = (
                f"Node {self._node!r} of thread {self._settings.config['thread_id']!r} failed: "
                f"{type(error).__name__}: {error}"
            )
            raise NodeError(message, node=self._node) from error
        raise error

    def _given(self, state: AgentState) -> dict[str, Any]:
        """What nodes and conditions may ask for. The state is theirs to change, and to return."""
        return {
            "state": state.model_copy(update={"context": list(state.context)}),
            "config": self._thread.config_for_nodes(),
            "store": self._store,
            "checkpointer": self._thread.checkpointer,
            "emit": self._emit_custom,
        }

    def _emit_custom(self, data: Any) -> None:
        self._emit(Chunk(type="custom", node=self._node, data=data))

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
        meta = self._state.execution_meta
        over = following == END
        state = joined.state.model_copy(
            update={
                "execution_meta": meta.model_copy(
                    update={
                        "current_node": self._node if over else following,
                        "step": meta.step + 1,
                        "status": "completed" if over else "running",
                        "answers": {},
                    }
                )
            }
        )
        if not over:
            state = self._paused_at(state, self._planned_pause(state, following))
        await self._thread.write(state, joined.messages)
        self._added.update((message.message_id, message) for message in joined.messages)
        for message in joined.messages:
            self._emit(Chunk(type="message", node=self._node, message=message))
        self._emit(Chunk(type="update", node=self._node))
        self._node = following
        self._announce_pause()

    def _planned_pause(self, state: AgentState, following: str) -> tuple[Interrupt, ...]:
        if self._node in self._plan.interrupt_after:
            step = state.execution_meta.step
            return (Interrupt(id=f"after:{self._node}:{step}", node=self._node),)
        if following in self._plan.interrupt_before:
            return (_before(following, state),)
        return ()

    def _paused_at(self, state: AgentState, interrupts: tuple[Interrupt, ...]) -> AgentState:
        if not interrupts:
            return state
        meta = state.execution_meta.model_copy(
            update={"status": "interrupted", "interrupts": list(interrupts)}
        )
        return state.model_copy(update={"execution_meta": meta})

    async def _pause(self, interrupts: tuple[Interrupt, ...]) -> None:
        state = self._paused_at(self._state, interrupts)
        await self._thread.write(state)
        self._announce_pause()

    def _announce_pause(self) -> None:
        meta = self._state.execution_meta
        if meta.status == "interrupted":
            self._emit(Chunk(type="interrupt", node=self._node, interrupts=tuple(meta.interrupts)))

    async def _stop(self) -> None:
        await self._finish("stopped")
        await self._thread.clear_stop_request()

    async def _finish(self, status: str, error: str | None = None) -> None:
        """The final write of a run that ends before its last node."""
        if self._thread.written is None or self._state.execution_meta.status != "running":
            return
        meta = self._state.execution_meta.model_copy(update={"status": status, "error": error})
        state = self._state.model_copy(update={"execution_meta": meta})
        await self._thread.write(state)

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
        self._emit(Chunk(type="end", node=self._node, data=meta.status))
        return {
            "messages": messages,
            "state": self._state,
            "interrupts": list(meta.interrupts),
            "usage": usage,
            "thread_id": self._settings.config["thread_id"],
            "run_id": meta.run_id,
        }


class _StopRequestedError(Exception):
    """Somebody asked for a stop, and the node was cancelled for it."""


def _before(node: str, state: AgentState) -> Interrupt:
    return Interrupt(id=f"before:{node}:{state.execution_meta.step}", node=node)


async def _done(task: asyncio.Task[Any], deadline: float) -> bool:
    """Wait for a task, until it is time to look at the stop flag; true when waiting is over."""
    left = deadline - time.monotonic()
    await asyncio.wait((task,), timeout=max(0.0, min(left, _STOP_POLL)))
    return task.done() or time.monotonic() >= deadline


async def _cancelled(task: asyncio.Task[Any]) -> None:
    """See to it that a task is over, and take note of whatever it ended with."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
