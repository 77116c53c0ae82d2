"""Node: a function of a graph, called with what its parameters ask for."""

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.injected import INJECTED_INTO_NODES, check_annotations
from tenxgraph.core.graph.interrupts import ungrouped
from tenxgraph.core.graph.worker_threads import run_in_thread

__all__ = ["Node", "accepted", "as_name", "call"]

_POSITIONAL = ("state", "config")


def as_name(value: Any) -> Any:
    """Return the text of a node's name, which may be of a subclass of `str`, or an enum of texts.

    A run compares, joins and stores names, and the database knows texts alone.
    """
    if isinstance(value, Enum) and isinstance(value.value, str):
        value = value.value
    return str.__str__(value) if isinstance(value, str) else value


class Node:
    """A function, sync or async, under a name."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise GraphError(f"Node {name!r} must be a function, not {type(function).__name__}.")
        self.name = name
        self.function = function
        self.parameters = _plan(name, function)
        """The function's own names, and what each is given."""
        named = [own for own, source in self.parameters.items() if own == source]
        check_annotations(f"Node {name!r}", function, named)

    async def __call__(self, given: Mapping[str, Any]) -> Any:
        """Call the function with what it asks for; a sync one in a thread, so it may block."""
        return await call(self.function, self.arguments(given))

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the function asks for, by its own names."""
        return {name: given[source] for name, source in self.parameters.items()}


async def call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function: an async one here, a sync one in a thread."""
    try:
        if is_async(function):
            return await function(**arguments)
        result = await run_in_thread(function, **arguments)
        return await result if inspect.isawaitable(result) else result
    except (SystemExit, KeyboardInterrupt) as error:
        # An event loop ends with the task that raises one, and takes everybody's work with it.
        name = getattr(function, "__name__", repr(function))
        raise RuntimeError(f"{name!r} tried to end the process: {error!r}") from error
    except BaseExceptionGroup as group:
        raise ungrouped(group)  # noqa: B904 - it is the group, or of it


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling gives an awaitable, also behind a `partial` or as an object's `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its kind is asked for, not its presence
    )


def accepted(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that a function can be given by name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise GraphError(f"{function!r} has no signature to look at.") from error
    return {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def _plan(name: str, function: Callable[..., Any]) -> dict[str, str]:
    """Which parameter gets what: by name, and else the first the state, the second the config."""
    plan: dict[str, str] = {}
    free = [source for source in _POSITIONAL if source not in accepted(function)]
    for parameter in accepted(function).values():
        if parameter.name in INJECTED_INTO_NODES:
            plan[parameter.name] = parameter.name
        elif parameter.default is not parameter.empty:
            continue
        elif free:
            plan[parameter.name] = free.pop(0)
        else:
            known = ", ".join(sorted(INJECTED_INTO_NODES))
            message = (
                f"Node {name!r} asks for {parameter.name!r}, which nothing provides. A node may "
                f"ask for: {known}."
            )
            raise GraphError(message)
    return plan
