"""ToolRun: one tool call carried out, and never once more after it has finished."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from tenxgraph.core.exceptions import ToolError
from tenxgraph.core.graph.interrupts import Asking, Paused, asking
from tenxgraph.core.graph.ledger import Asked, Ledger, Outcome
from tenxgraph.core.graph.tool_result import error_text, to_result
from tenxgraph.core.graph.tools import Tool
from tenxgraph.storage.checkpointer import ToolExecution

__all__ = ["RERUN", "UNKNOWN", "ToolRun"]

logger = logging.getLogger("tenxgraph.graph")

RERUN = "rerun"
UNKNOWN = (
    "It is unknown whether this call was carried out: it was cut short while it ran. It was not "
    "repeated. Find out before you call it again."
)


class _TookTooLongError(ToolError):
    """A tool gave no result in time: like one cut short, it may have done its work all the same."""


class ToolRun:
    """Looks a call up in the ledger, and carries it out if it has not been.

    Args:
        tool: what is called.
        asked: the call.
        ledger: of the thread.
        timeout: seconds that the tool may take.
    """

    def __init__(self, tool: Tool, asked: Asked, ledger: Ledger, timeout: float) -> None:
        self._tool = tool
        self._asked = asked
        self._ledger = ledger
        self._timeout = timeout

    async def outcome(self, given: Mapping[str, Any]) -> Outcome:
        """What the call came to, now or when it was carried out.

        Raises:
            Paused: the tool, or its policy for unknown outcomes, waits for an answer.
            StorageError: the ledger could not be read or written.
        """
        known = await self._known()
        return await self._carry_out(given) if known is None else known

    async def _known(self) -> Outcome | None:
        """What the ledger says; `None` if the tool is to run."""
        row = await self._ledger.find(self._asked)
        if row is None or row.status == "failed":
            return None
        if row.status == "started":
            return self._unknown(row)
        return Outcome.of(row)

    def _unknown(self, row: ToolExecution) -> Outcome | None:
        """Decide about a call that began, and of whose end nobody has heard."""
        current = asking.get()
        if self._tool.on_unknown == "ask" and current is not None:
            return self._answered(row, current)
        self._report()
        return None if self._tool.on_unknown == "rerun" else self._error(UNKNOWN)

    def _answered(self, row: ToolExecution, current: Asking) -> Outcome | None:
        """What somebody says about the call; `None` if it is to run again."""
        question = {
            "unknown": self._tool.name,
            "args": dict(self._asked.call.args),
            "tool_call_id": self._asked.call.id,
            "started_at": row.updated_at.isoformat(),
        }
        try:
            # Each attempt is a question of its own: an answer about another says nothing of it.
            answer = current.ask(question, name=f"unknown:{row.updated_at.isoformat()}")
        except Paused:
            self._report()
            raise
        return None if answer == RERUN else Outcome(to_result(answer))

    def _report(self) -> None:
        logger.warning(
            "Thread %r: it is unknown whether call %d of message %r, %s, was carried out before "
            "it was cut short. Policy: %s.",
            self._ledger.thread_id,
            self._asked.position,
            self._asked.message_id,
            self._tool.name,
            self._tool.on_unknown,
        )

    async def _carry_out(self, given: Mapping[str, Any]) -> Outcome:
        try:
            arguments = self._tool.arguments(self._asked.call, cut=self._asked.cut)
        except ToolError as error:
            return self._error(str(error))
        await self._ledger.start(self._asked)
        try:
            output = await self._run(arguments, given)
        except Paused as paused:
            await self._ledger.pause(self._asked, [one.id for one in paused.interrupts])
            raise
        except _TookTooLongError as error:
            # The record stays as it is, `started`: should the call come up again, what became of
            # it is unknown, and the tool's policy decides.
            return self._error(str(error))
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            # Nobody has cancelled the call: the tool's own cancelling is a failure like any other.
            return await self._failed(error)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is told to the model
            return await self._failed(error)
        # Nothing may come between the end of the tool and its record, or it would run again.
        return await self._ledger.finish(self._asked, Outcome(to_result(output)))

    async def _run(self, arguments: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await self._tool.run(arguments, given)
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = (
                f"{self._tool.name} gave no result within {self._timeout:g} s. It may have done "
                "its work all the same."
            )
            raise _TookTooLongError(message) from error

    async def _failed(self, error: BaseException) -> Outcome:
        words = error_text(error)
        told = words if isinstance(error, ToolError) else f"{type(error).__name__}: {words}"
        outcome = self._error(told)
        await self._ledger.fail(self._asked, outcome)
        logger.warning("Tool %s failed: %s", self._tool.name, told, exc_info=error)
        return outcome

    def _error(self, told: str) -> Outcome:
        try:
            form = self._tool.as_error(told)
        except Exception:  # noqa: BLE001 - the function's own form of an error, which may fail
            form = told
        return Outcome(to_result(form), is_error=True)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
