"""Tools: functions that a model may call."""

import inspect
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypeVar, overload

from tenxgraph.core.exceptions import GraphError, ToolError
from tenxgraph.core.graph.calls import is_empty_object, is_json_object
from tenxgraph.core.graph.docstring import Docstring
from tenxgraph.core.graph.injected import INJECTED_INTO_TOOLS, check_annotations
from tenxgraph.core.graph.node import accepted, as_name, call
from tenxgraph.core.graph.schema import Parameters
from tenxgraph.core.state import ToolCall

__all__ = ["OnUnknown", "Tool", "tool"]

logger = logging.getLogger("tenxgraph.graph")

F = TypeVar("F", bound=Callable[..., Any])

OnUnknown = Literal["rerun", "ask", "fail"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_POLICIES = ("rerun", "ask", "fail")
# Of a tool that is a generator, which may have no end.
_MOST_VALUES = 10_000


class Tool:
    """A function that a model may call, with what the model is told of it.

    It can still be called like the function. A sync function runs in a thread.

    Args:
        function: a function, sync or async, or an object with `__call__`. What it returns is told
            to the model, as it is if it is text and else as JSON. What it raises is told to the
            model as an error; a `ToolError` in its own words. If the function has an attribute
            `as_error`, a function `(words) -> result`, errors are told as that says. If it has
            `in_order = True`, calls of one message are carried out one after the other.
        name: what the model calls it; by default the function's name.
        description: what the model is told; by default the docstring.
        on_unknown: what happens if the process died while the tool ran, so that nobody knows
            whether it did its work. `"rerun"`: it runs again. `"ask"`: the run pauses, and whoever
            resumes it says `"rerun"`, or what the result was. `"fail"`: the model is told that it
            is unknown.
        store: the long-term memory that this tool gets, instead of the graph's.

    Raises:
        GraphError: it is no function, has no name a provider takes, or cannot be described.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        on_unknown: OnUnknown = "rerun",
        store: Any = None,
    ) -> None:
        if inspect.isclass(function) or not callable(function):
            message = f"A tool must be a function or an object that can be called: {function!r}."
            raise GraphError(message)
        if on_unknown not in _POLICIES:
            raise GraphError(f"`on_unknown` must be one of {_POLICIES}, not {on_unknown!r}.")
        # A tool's own signature says nothing of its parameters.
        self.function: Callable[..., Any] = (
            function.function if isinstance(function, Tool) else function
        )
        self.name = _checked_name(_name_of(function) if name is None else name)
        self.description = description or _description_of(function)
        self.on_unknown = on_unknown
        self.store = store
        self._parameters = Parameters(self.name, self.function, INJECTED_INTO_TOOLS)
        self._wanted = INJECTED_INTO_TOOLS.intersection(accepted(self.function))
        check_annotations(f"Tool {self.name!r}", self.function, sorted(self._wanted))
        _warn_of_gaps(self.name, bool(self.description), tuple(self._parameters.unannotated))
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def schema(self) -> dict[str, Any]:
        """What the model is told, in OpenAI's format."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self._parameters.json_schema,
        }
        return {"type": "function", "function": function}

    def arguments(self, asked: ToolCall, *, cut: str | None = None) -> dict[str, Any]:
        """Return what a call passes, checked.

        Args:
            asked: the call.
            cut: the word with which the model's answer ended, if it was cut short.

        Raises:
            ToolError: it is no JSON object, or does not fit the signature.
        """
        if cut is not None and not is_json_object(asked.arguments_text()):
            message = (
                f"This call of {self.name} was not carried out: the answer was cut short "
                f"({cut}) before its arguments were complete. Nothing was done. Call it again with "
                "complete arguments, in a shorter answer."
            )
            raise ToolError(message)
        # Some servers send nothing where the model passes nothing, also for a tool whose
        # parameters all have defaults.
        if asked.arguments and not asked.args and not is_empty_object(asked.arguments):
            message = (
                f"The arguments of {self.name} are no JSON object: {asked.arguments[:200]!r}. "
                "Nothing was done. Call it again with valid JSON."
            )
            raise ToolError(message)
        return self._parameters.check(asked.args)

    @property
    def in_order(self) -> bool:
        """Whether its calls of one message are carried out one after the other, as asked."""
        return bool(getattr(self.function, "in_order", False))

    def as_error(self, told: str) -> Any:
        """An error as the model is told of it: in words, or as the function's own `as_error`."""
        form = getattr(self.function, "as_error", None)
        return told if form is None else form(told)

    async def run(self, arguments: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """Call the function with the model's arguments, and with what it asks for of `given`."""
        injected = {name: given[name] for name in self._wanted}
        returned = await call(self.function, {**arguments, **injected})
        if inspect.isgenerator(returned):
            # Its code has not run yet: that is the tool's work, too.
            return await call(lambda: self._listed(returned), {})
        if inspect.isasyncgen(returned):
            return self._checked_length([one async for one in _first_of(returned)])
        return returned

    def _listed(self, values: Iterable[Any]) -> list[Any]:
        return self._checked_length(list(islice(values, _MOST_VALUES + 1)))

    def _checked_length(self, values: list[Any]) -> list[Any]:
        if len(values) > _MOST_VALUES:
            raise ToolError(f"{self.name} gave more than {_MOST_VALUES} values.")
        return values


async def _first_of(values: AsyncIterator[Any]) -> AsyncIterator[Any]:
    left = _MOST_VALUES
    async for one in values:
        yield one
        left -= 1
        if left < 0:
            return


@overload
def tool(
    function: F,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    on_unknown: OnUnknown = "rerun",
) -> Tool: ...


@overload
def tool(
    name: str | None = None,
    /,
    *,
    description: str | None = None,
    on_unknown: OnUnknown = "rerun",
) -> Callable[[Callable[..., Any]], Tool]: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, on_unknown: OnUnknown = "rerun"
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | str | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    on_unknown: OnUnknown = "rerun",
) -> Any:
    """Make a tool of a function: `@tool`, `@tool("name")`, or `@tool(on_unknown="ask")`.

    A plain function can be given to `ToolNode` as it is; the decorator says more about it.

    Args:
        function: see `Tool`; or the name, instead of `name=`.
        name: what the model calls it; by default the function's name.
        description: what the model is told; by default the docstring.
        on_unknown: `"rerun"`, `"ask"` or `"fail"`: what happens if the process died while the tool
            ran; see `Tool`.

    Raises:
        GraphError: it has two names; or what `Tool` raises.
    """
    if isinstance(function, str):
        if name is not None:
            raise GraphError(f"The tool has two names, {function!r} and {name!r}. Give it one.")
        function, name = None, function

    def make(function: Callable[..., Any]) -> Tool:
        return Tool(function, name=name, description=description, on_unknown=on_unknown)

    return make if function is None else make(function)


def _checked_name(name: Any) -> str:
    name = as_name(name)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = (
            f"{name!r} is no name for a tool: providers take 1 to 64 letters, digits, `_` and "
            '`-`. Give it one with `@tool(name="...")`.'
        )
        raise GraphError(message)
    return name


def _name_of(function: Any) -> str:
    while hasattr(function, "func"):  # a partial
        function = function.func
    own = getattr(function, "name", None) or getattr(function, "__name__", None)
    return own if isinstance(own, str) else type(function).__name__


def _description_of(function: Any) -> str:
    own = getattr(function, "description", None)
    return own if isinstance(own, str) else Docstring.of(function).description


@lru_cache(maxsize=1024)  # once for each tool: a server may make its agents anew for every request
def _warn_of_gaps(name: str, is_described: bool, unannotated: tuple[str, ...]) -> None:
    """Log what the model is not told of a tool."""
    if not is_described:
        logger.warning(
            "Tool %r has no docstring, so the model knows nothing of it but its name. Write one, "
            "or pass `description=` to `@tool`.",
            name,
        )
    if unannotated:
        logger.warning(
            "Tool %r has parameters without annotations: %s. The model does not know their types, "
            "and its arguments are passed unchecked. Annotate them: `%s: str`.",
            name,
            ", ".join(unannotated),
            unannotated[0],
        )
