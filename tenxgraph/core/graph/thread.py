"""Thread: a run's own view of its thread. What it read, what it writes, and from which version."""

import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from tenxgraph.core.exceptions import RunInProgressError, TransientStorageError
from tenxgraph.core.graph import lease
from tenxgraph.core.graph.shield import unbroken
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.backend import Claim, Lease
from tenxgraph.storage.checkpointer import BaseCheckpointer
from tenxgraph.storage.scope import LEASE_KEY, VERSION_KEY

__all__ = ["Thread"]

_LOOP_ONLY = frozenset({VERSION_KEY, LEASE_KEY, "_stop_requested"})


class Thread:
    """Reads once, then writes; only its own writes move the version it builds on."""

    def __init__(
        self, checkpointer: BaseCheckpointer[Any], config: dict[str, Any], lease_timeout: float
    ) -> None:
        self.checkpointer = checkpointer
        self._config = dict(config)
        self._holder = lease.new_holder()
        self._lease_timeout = lease_timeout
        self._renew_at = 0.0
        self._over: Claim | None = None
        self.from_cache = False
        """Whether what was read came from the cache, and may be older than the database."""
        self.written: AgentState | None = None
        """The state as this run last wrote it."""

    async def read(self) -> AgentState | None:
        """The newest state: from the cache, else from the database."""
        state = await self.checkpointer.aget_state_cache(self._config)
        self.from_cache = state is not None
        return state if state is not None else await self.checkpointer.aget_state(self._config)

    async def read_past_cache(self) -> AgentState | None:
        """The newest state in the database."""
        self.from_cache = False
        return await self.checkpointer.aget_state(self._config)

    async def write(self, state: AgentState, messages: Sequence[Message] = ()) -> None:
        """Write durably, then refresh the cache. A cancellation waits until that is done.

        Raises:
            StaleStateError: another run has committed since. Nothing was written.
            RunInProgressError: another run is at work on the thread. Nothing was written.
        """
        await unbroken(self._write(state, messages))

    async def _write(self, state: AgentState, messages: Sequence[Message]) -> None:
        running = state.execution_meta.status == "running"
        self._config[LEASE_KEY] = self._lease() if running else Lease(self._holder, None)
        await self.checkpointer.aput_checkpoint(self._config, state, messages)
        self.written = state
        await self.checkpointer.aput_state_cache(self._config, state)

    async def messages(self, ids: Collection[str]) -> dict[str, Message]:
        """Messages by id, also those that the context has lost since; none that was deleted."""
        context = self.written.context if ids and self.written is not None else ()
        known = {message.message_id: message for message in context}
        found = {}
        for one in ids:
            message = known.get(one) or await self.checkpointer.aget_message(self._config, one)
            if message is not None:
                found[one] = message
        return found

    async def as_written(self) -> AgentState | None:
        """The state as this run last wrote it, whatever a node has done to its parts since."""
        if self.written is None:
            return None
        version = self._config[VERSION_KEY]
        stored = await self.checkpointer.aget_state(dict(self._config), version)
        return self.written if stored is None else stored

    @property
    def stop_requested(self) -> bool:
        """Whether somebody had asked for a stop by the last write, which brought the answer."""
        return bool(self._config.get("_stop_requested"))

    async def should_stop(self) -> bool:
        """Whether somebody has asked for a stop by now, or another run has taken the thread over.

        Renews the lease when it is time to. A database that is away for a moment ends no node.
        """
        try:
            if time.monotonic() < self._renew_at:
                return await self.checkpointer.ais_stop_requested(self._config)
            kept = await self.checkpointer.arenew_lease(self._config, self._lease())
        except TransientStorageError:
            return False
        return not kept or self.stop_requested

    def take_over(self, busy: RunInProgressError) -> None:
        """Write over the claim that was found, unless it is renewed before."""
        self._over = Claim(busy.holder, busy.until)

    def close(self) -> None:
        """Say that the run is over."""
        lease.ended(self._holder)

    def _lease(self) -> Lease:
        self._renew_at = time.monotonic() + self._lease_timeout / 3
        return Lease(self._holder, timedelta(seconds=self._lease_timeout), self._over)

    async def clear_stop_request(self) -> None:
        """Forget that somebody asked for a stop."""
        await self.checkpointer.aclear_stop_request(self._config)
        self._config.pop("_stop_requested", None)

    def config_for_nodes(self) -> dict[str, Any]:
        """A config for code outside the loop: it may use the thread, not move its version.

        It knows the thread's life, so that nothing it writes brings a deleted thread back.
        """
        return {name: value for name, value in self._config.items() if name not in _LOOP_ONLY}
