"""The ledger: what became of each tool call, written as it ends, so that none is repeated."""

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from tenxgraph.core.exceptions import (
    StaleStateError,
    StorageError,
    ThreadOwnershipError,
    TransientStorageError,
)
from tenxgraph.core.graph import unrecorded
from tenxgraph.core.graph.shield import unbroken
from tenxgraph.core.state import Message, ToolCall
from tenxgraph.core.state.json_words import as_json
from tenxgraph.storage.checkpointer import BaseCheckpointer, ToolExecution

__all__ = ["Asked", "Ledger", "Outcome"]

logger = logging.getLogger("tenxgraph.graph")

_KEYS = UUID("0d0a1f0c-6c0f-4b7e-9a39-4a8d7f0f8c55")

_PASSING = (TransientStorageError, OSError)
_GONE = (StaleStateError, ThreadOwnershipError)
# Seconds between attempts to record how a call has ended, and how long to go on with them.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
_PATIENCE = 2.0
_TOO_MUCH = (
    "This call was carried out, but its result could not be stored: {}. Do not call it again for "
    "the same purpose."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One tool call: asked by a message, at a position in it. The provider's id names nothing."""

    message_id: str
    position: int
    call: ToolCall
    cut: str | None = None
    """The word with which the message ended, if it was cut short; see `calls.cut_reason`."""

    @property
    def digest(self) -> str:
        """What was asked for, in short: another tool or other arguments are another call."""
        asked = [self.call.name, self.call.args]
        try:
            text = json.dumps(asked, sort_keys=True, default=str)
        except (TypeError, ValueError):  # an integer that Python does not write out
            text = json.dumps(as_json(asked), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def idempotency_key(self, thread_id: str) -> str:
        """The same on every attempt, and for no other call of any thread."""
        place = [thread_id, self.message_id, self.position, self.digest]
        return str(uuid5(_KEYS, json.dumps(place)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to, as the model is told."""

    output: Any
    is_error: bool = False

    def message(self, call: ToolCall) -> Message:
        """The answer to the call."""
        return Message.tool_message(
            self.output, call.id, name=call.name or None, is_error=self.is_error
        )

    def as_json(self) -> dict[str, Any]:
        """What is kept of it; `of` reads it back."""
        return {"output": self.output, "is_error": self.is_error}

    @classmethod
    def of(cls, execution: ToolExecution) -> "Outcome | None":
        """What is kept of a call that has ended, or has given its answer."""
        kept = execution.result
        if not isinstance(kept, Mapping) or "output" not in kept:
            return None
        return cls(kept["output"], bool(kept.get("is_error")))


class Ledger:
    """The tool executions of one thread, each written in a transaction of its own.

    `started`: the tool runs; if the process is gone, nobody knows how far it came. `finished`:
    its result is kept, and it never runs again. `failed`: it raised, or paused to ask; it may run
    again. A memory write that a call promised is a row of its own, `scheduled` until it has landed.

    How a call has ended is known before it is recorded. If the record cannot be written, it stays
    in this process, and is written before anything else is done about the call.
    """

    def __init__(self, checkpointer: BaseCheckpointer[Any], config: Mapping[str, Any]) -> None:
        self._checkpointer = checkpointer
        self._config = dict(config)
        self._unrecorded = unrecorded.of_checkpointer(checkpointer)

    @property
    def thread_id(self) -> str:
        """Whose ledger it is."""
        return str(self._config["thread_id"])

    async def find(self, asked: Asked) -> ToolExecution | None:
        """What is known of this very call; nothing, if its message asked for another one.

        Raises:
            StorageError: an end that could not be recorded before cannot be recorded now.
        """
        await self._record_kept(asked)
        found = await self._checkpointer.aget_tool_result(
            self._config, asked.message_id, asked.position
        )
        if found is None or found.args_digest == asked.digest:
            return found
        if found.status == "started":
            self._report(found)
        return None

    async def scheduled(self) -> list[ToolExecution]:
        """The promised writes that have not landed, in order."""
        return await self._checkpointer.alist_tool_results(self._config, "scheduled")

    async def start(self, asked: Asked) -> None:
        """Record that the tool begins.

        Raises:
            StaleStateError: the thread is gone, so the tool must not run.
        """
        await self._put(asked, "started", None)

    async def finish(self, asked: Asked, outcome: Outcome) -> Outcome:
        """Record what the tool returned, and return what is recorded.

        Where the database refuses the result itself, that is recorded in its place.

        Raises:
            StorageError: it could not be recorded for now; or the thread is gone.
        """
        ended = _execution(asked, "finished", outcome.as_json())
        instead = Outcome(_TOO_MUCH, is_error=True)
        recorded = await unbroken(self._end(ended, instead))
        return Outcome.of(recorded) or outcome

    async def fail(self, asked: Asked, outcome: Outcome) -> None:
        """Record why the tool failed. Raises what `finish` does."""
        ended = _execution(asked, "failed", outcome.as_json())
        await unbroken(self._end(ended, Outcome("The tool failed.", is_error=True)))

    async def pause(self, asked: Asked, questions: list[str]) -> None:
        """Record that the tool waits for answers, with which it runs from its beginning."""
        ended = _execution(asked, "failed", {"waits_for": questions})
        await unbroken(self._end(ended))

    async def promised(self, key: str) -> ToolExecution | None:
        """What is known of a promised write, by its key."""
        return await self._checkpointer.aget_tool_result(self._config, _promise_id(key), 0)

    async def again(self, row: ToolExecution) -> ToolExecution | None:
        """A row as it is by now."""
        return await self._checkpointer.aget_tool_result(self._config, row.message_id, row.position)

    async def schedule(self, key: str, asker: str, promised: Any) -> ToolExecution:
        """Record, under a key of its own, a write that a node or tool promises."""
        row = ToolExecution(
            message_id=_promise_id(key),
            position=0,
            tool_name=asker,
            status="scheduled",
            result=promised,
        )
        await self._write(row)
        return row

    async def amend(self, execution: ToolExecution, status: Any, result: Any) -> None:
        """Record what became of a promised write."""
        changed = {"status": status, "result": result, "updated_at": datetime.now(UTC)}
        await self._write(execution.model_copy(update=changed))

    def _report(self, edited: ToolExecution) -> None:
        """Tell of a call that nobody will ask about again, before its record makes room."""
        logger.warning(
            "Thread %r: it is unknown whether call %d of message %r, %s, was carried out before it "
            "was cut short at %s. The message has been edited since, and asks for another call.",
            self.thread_id,
            edited.position,
            edited.message_id,
            edited.tool_name,
            edited.updated_at.isoformat(),
        )

    async def _end(self, ended: ToolExecution, instead: Outcome | None = None) -> ToolExecution:
        """Record how a call has ended, and return the record; or remember it, and raise.

        Args:
            ended: the record.
            instead: what is recorded where the database refuses the result itself.
        """
        try:
            await self._write_patiently(ended)
        except _GONE:
            raise  # there is no ledger any more that could have it
        except StorageError as refused:
            smaller = None
            if instead is not None and not isinstance(refused, _PASSING):
                smaller = await self._write_instead(ended, instead, refused)
            if smaller is None:
                self._unrecorded.keep(self._config, ended)
                raise
            return smaller
        except BaseException:
            self._unrecorded.keep(self._config, ended)
            raise
        return ended

    async def _write_instead(
        self, ended: ToolExecution, instead: Outcome, refused: StorageError
    ) -> ToolExecution | None:
        """Record an end without its result; return None where that cannot be recorded either."""
        told = Outcome(instead.output.format(refused), is_error=True)
        smaller = ended.model_copy(update={"result": told.as_json()})
        try:
            await self._checkpointer.aput_tool_result(self._config, smaller)
        except StorageError:
            return None
        return smaller

    async def _write_patiently(self, ended: ToolExecution) -> None:
        """Write a record, and try again for a while where the database is away for a moment."""
        begun = time.monotonic()
        for pause in _PAUSES:
            try:
                await self._checkpointer.aput_tool_result(self._config, ended)
            except _PASSING:
                if time.monotonic() - begun > _PATIENCE:
                    raise
                await asyncio.sleep(pause)
            else:
                return
        await self._checkpointer.aput_tool_result(self._config, ended)

    async def _record_kept(self, asked: Asked) -> None:
        """Write the end of a call that could not be recorded, before anything is done about it."""
        end = self._unrecorded.find(self._config, asked.message_id, asked.position)
        if end is not None:
            await unbroken(self._record_late(end))

    async def _record_late(self, end: "unrecorded.End") -> None:
        ended = end.execution
        found = await self._checkpointer.aget_tool_result(
            self._config, ended.message_id, ended.position
        )
        # Otherwise the thread is gone, or somebody has carried the call out once more since.
        if found is not None and (found.status, found.args_digest) == (
            "started",
            ended.args_digest,
        ):
            with contextlib.suppress(*_GONE):
                await self._checkpointer.aput_tool_result(dict(end.config), ended)
        self._unrecorded.drop(end)

    async def _put(self, asked: Asked, status: Any, result: Any) -> None:
        await self._write(_execution(asked, status, result))

    async def _write(self, execution: ToolExecution) -> None:
        await unbroken(self._checkpointer.aput_tool_result(self._config, execution))


def _execution(asked: Asked, status: Any, result: Any) -> ToolExecution:
    return ToolExecution(
        message_id=asked.message_id,
        position=asked.position,
        tool_call_id=asked.call.id or None,
        tool_name=asked.call.name,
        args_digest=asked.digest,
        status=status,
        result=result,
    )


def _promise_id(key: str) -> str:
    """What stands in a promise's row where the id of the asking message stands in a call's."""
    return f"promise:{key}"
