"""Injected parameters: the names by which functions ask for what the library passes to them."""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Number
from pathlib import PurePath
from typing import Annotated, Any, Literal, NewType, TypeVar, Union
from uuid import UUID

from pydantic import BaseModel

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state import AgentState

__all__ = ["INJECTED_INTO_NODES", "INJECTED_INTO_TOOLS", "check_annotations", "globals_of"]

INJECTED_INTO_NODES = frozenset({"state", "config", "store", "checkpointer", "emit"})
"""What a node may ask for by parameter name."""

INJECTED_INTO_TOOLS = INJECTED_INTO_NODES | {"tool_call_id", "idempotency_key"}
"""What a tool may ask for by parameter name. A model is never told of these parameters."""

_PASSED = {
    "state": "the thread's state",
    "config": "the run's config, a dict",
    "store": "the long-term memory",
    "checkpointer": "the checkpointer",
    "emit": "a function that tells a stream of something",
    "tool_call_id": "the provider's id of the call, a str",
    "idempotency_key": "a key of the call, a str",
}
_TEXTS = frozenset({"tool_call_id", "idempotency_key"})
_MAPPINGS = frozenset({"state", "config"})
# What a model could pass, and the library never does. Other classes may be anybody's own protocol
# for a store, a state or a checkpointer.
_VALUES = (str, bytes, bytearray, Number, Decimal, date, time, timedelta, UUID, PurePath, Enum)
_SERIES = (list, tuple, set, frozenset)


def check_annotations(owner: str, function: Callable[..., Any], names: Iterable[str]) -> None:
    """Refuse a parameter that has an injected one's name, and the type of something else.

    Args:
        owner: what the function is, for the error: `Tool 'search'`.
        function: the function.
        names: its parameters that the library passes.

    Raises:
        GraphError: a parameter is declared as what the library never passes under its name.
    """
    parameters = inspect.signature(function).parameters
    for name in names:
        hint = _resolved(parameters[name].annotation, function)
        if _fits(name, hint):
            continue
        declared = inspect.formatannotation(hint)
        message = (
            f"{owner} has a parameter `{name}: {declared}`. That name is reserved: the library "
            f"passes {_PASSED[name]} under it, and a model is never told of it. Rename the "
            "parameter."
        )
        raise GraphError(message)


def globals_of(function: Any) -> dict[str, Any]:
    """Return the names that the annotations of a function are looked up in."""
    while hasattr(function, "func"):  # a partial
        function = function.func
    function = inspect.unwrap(function)
    if not inspect.isroutine(function):
        function = type(function).__call__
    found: dict[str, Any] = getattr(function, "__globals__", {})
    return found


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return the declared type; `Any` where there is none, or it cannot be looked up."""
    if annotation is inspect.Parameter.empty:
        return Any
    bare = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(bare, globalns=globals_of(function))["it"]
    except Exception:  # noqa: BLE001 - a name that only a type checker knows, or no type at all
        return Any


def _fits(name: str, hint: Any) -> bool:
    """Return True unless the declared type is certainly none of what is passed under a name."""
    if isinstance(hint, TypeVar):
        return hint.__bound__ is None or _fits(name, hint.__bound__)
    if isinstance(hint, NewType):
        return _fits(name, hint.__supertype__)
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _fits(name, typing.get_args(hint)[0])
    if origin in (Union, types.UnionType):
        members = [one for one in typing.get_args(hint) if one is not type(None)]
        return any(_fits(name, one) for one in members)
    if origin is Literal:
        return name in _TEXTS and all(isinstance(one, str) for one in typing.get_args(hint))
    kind = hint if origin is None else origin
    return not isinstance(kind, type) or _is_passed(name, kind)


def _is_passed(name: str, kind: type) -> bool:
    if kind is object:
        return True
    if name in _TEXTS:
        return issubclass(str, kind) or not issubclass(kind, (*_VALUES, *_SERIES, dict, Mapping))
    if issubclass(kind, dict | Mapping):  # a TypedDict is a dict, too
        return name in _MAPPINGS
    if issubclass(kind, BaseModel):
        return name != "config" and (name != "state" or _is_state(kind))
    return not issubclass(kind, (*_VALUES, *_SERIES))


def _is_state(kind: type) -> bool:
    return issubclass(kind, AgentState) or issubclass(AgentState, kind)
