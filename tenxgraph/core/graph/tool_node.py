"""ToolNode: a node that runs the tools a model has called, each call at most once per thread."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.calls import cut_reason, last_turn
from tenxgraph.core.graph.interrupts import Paused, asking
from tenxgraph.core.graph.ledger import Asked, Ledger, Outcome
from tenxgraph.core.graph.tool_run import ToolRun
from tenxgraph.core.graph.tools import Tool
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import BaseCheckpointer
from tenxgraph.storage.store.pending_write import PENDING_LOG_KEY

__all__ = ["ToolNode"]

_TIMEOUT = 300.0


class ToolNode:
    """Carries out the calls of the assistant's last message, side by side, and answers each.

    A call that has finished before, in this run or in one that was cut short, is answered from the
    ledger. What a tool raises, unknown tools and bad arguments are answered as errors.

    Args:
        tools: functions, sync or async, objects with `__call__`, or what `@tool` makes; a list of
            them, or a single one.

    Raises:
        GraphError: two have the same name, or one cannot be described to a model.
    """

    def __init__(self, tools: Iterable[Callable[..., Any]] | Callable[..., Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self.add(*_as_list(tools))

    @property
    def tools(self) -> list[Tool]:
        """The tools, in order."""
        return list(self._tools.values())

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """What a model is told of the tools, in OpenAI's format."""
        return [one.schema for one in self._tools.values()]

    def add(self, *tools: Callable[..., Any]) -> None:
        """Add tools.

        Raises:
            GraphError: a name is taken.
        """
        for one in tools:
            made = one if isinstance(one, Tool) else Tool(one)
            if made.name in self._tools:
                raise GraphError(f"There is a tool {made.name!r} already.")
            self._tools[made.name] = made

    async def __call__(
        self,
        state: AgentState,
        config: Mapping[str, Any],
        checkpointer: BaseCheckpointer[Any],
        store: Any = None,
        emit: Callable[[Any], None] | None = None,
    ) -> list[Message]:
        """Answer the calls that have no result yet; as a node, or from a node of your own.

        Args:
            state: its context ends with an assistant's message that calls tools, or there is
                nothing to do.
            config: the run's; `tool_timeout` (300 s) is read from it.
            checkpointer: keeps the ledger. The thread must be in it.
            store: the long-term memory for tools that ask for it.
            emit: passed on to tools that ask for it.

        Returns:
            One result for each call, in the order of the calls.
        """
        turn = last_turn(state.context)
        if turn is None or not turn.open:
            return []
        ledger = Ledger(checkpointer, config)
        cut = cut_reason(turn.message)
        asked = [Asked(turn.message.message_id, i, turn.calls[i], cut) for i in turn.open]
        given = {
            "state": state,
            "config": {**config, "message_id": turn.message.message_id},
            "checkpointer": checkpointer,
            "store": store,
            "emit": emit or _nowhere,
        }
        queue = asyncio.Lock()  # fair: whoever comes first is let in first
        outcomes = await _all(self._in_turn(one, ledger, given, queue) for one in asked)
        return [out.message(one.call) for out, one in zip(outcomes, asked, strict=True)]

    async def _in_turn(
        self, asked: Asked, ledger: Ledger, given: Mapping[str, Any], queue: asyncio.Lock
    ) -> Outcome:
        """The outcome of a call, after those of earlier calls where the tool's have an order."""
        tool = self._tools.get(asked.call.name)
        if tool is None or not tool.in_order:
            return await self._outcome(asked, ledger, given)
        async with queue:
            return await self._outcome(asked, ledger, given)

    async def _outcome(self, asked: Asked, ledger: Ledger, given: Mapping[str, Any]) -> Outcome:
        current = asking.get()
        if current is not None:
            asking.set(current.within(asked.position, asked.digest))
        tool = self._tools.get(asked.call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            message = f"There is no tool {asked.call.name!r}. There are: {known}."
            return Outcome(message, is_error=True)
        key = asked.idempotency_key(ledger.thread_id)
        config = dict(given["config"])
        if PENDING_LOG_KEY in config:
            config[PENDING_LOG_KEY] = config[PENDING_LOG_KEY].within(tool.name, key)
        own = {
            "config": config,
            "store": given["store"] if tool.store is None else tool.store,
            "tool_call_id": asked.call.id,
            "idempotency_key": key,
        }
        timeout = config.get("tool_timeout", _TIMEOUT)
        return await ToolRun(tool, asked, ledger, timeout).outcome({**given, **own})


async def _all(calls: Iterable[Awaitable[Outcome]]) -> list[Outcome]:
    """Wait for every call to end, whatever becomes of the others, so that each is recorded."""
    ended = await asyncio.gather(*calls, return_exceptions=True)
    outcomes = [one for one in ended if isinstance(one, Outcome)]
    if len(outcomes) == len(ended):
        return outcomes
    errors = [one for one in ended if isinstance(one, BaseException)]
    for error in errors:
        if not isinstance(error, Paused):
            raise error
    questions = [one for error in errors if isinstance(error, Paused) for one in error.interrupts]
    raise Paused(tuple(questions))


def _nowhere(_data: Any) -> None:
    """Nobody listens."""


def _as_list(tools: Any) -> Iterable[Callable[..., Any]]:
    """Return the tools, also where a single one is given."""
    if isinstance(tools, str) or not (callable(tools) or isinstance(tools, Iterable)):
        raise GraphError(f"`tools` must be a list of functions, not {tools!r}.")
    if isinstance(tools, Iterable) and not isinstance(tools, type):
        return tools
    return [tools]
