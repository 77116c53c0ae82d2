"""What a declared type says of a value, so that the value's own type need not be written down."""

import functools
import types
import typing
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from pydantic import Discriminator

__all__ = ["argument", "arguments", "comes_back", "is_exactly"]


def _cached(function: Callable[[Any, type], Any]) -> Callable[[Any, type], Any]:
    """Remember what a declared type means: it is asked for every value of that field.

    By identity, as hashing `dict[str, Box[Inner] | None]` costs more than the answer; the
    declared type is kept with the answer, so that its id cannot become another's.
    """
    answers: dict[tuple[int, type], tuple[Any, Any]] = {}

    @functools.wraps(function)
    def answer(hint: Any, kind: type) -> Any:
        known = answers.get((id(hint), kind))
        if known is None:
            known = answers[id(hint), kind] = (hint, function(hint, kind))
        return known[1]

    return answer


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The members of a declared union, or the one declared type, freed of `Annotated` and None."""
    if hint is type(None):
        return ()
    if typing.get_origin(hint) is typing.Annotated:
        return _alternatives(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(one for member in typing.get_args(hint) for one in _alternatives(member))
    return (hint,)


@_cached
def is_exactly(hint: Any, kind: type) -> bool:
    """Whether the declared type alone says that the value is a `kind`."""
    named = _alternatives(hint)
    if typing.get_origin(hint) is typing.Annotated and any(
        isinstance(note, Discriminator) or getattr(note, "discriminator", None) is not None
        for note in typing.get_args(hint)[1:]
    ):
        return kind in named  # pydantic tells the members apart by what they say themselves
    return named == (kind,)


@_cached
def arguments(hint: Any, container: type) -> tuple[Any, ...]:
    """What the declared type says of the contents, if it is a `container` of something."""
    named = _alternatives(hint)
    if len(named) == 1 and isinstance(origin := typing.get_origin(named[0]), type):
        return typing.get_args(named[0]) if issubclass(container, origin) else ()
    return ()


def argument(hint: Any, position: int, container: type) -> Any:
    """One of `arguments`, or `Any`."""
    found = () if hint is Any else arguments(hint, container)
    return found[position] if len(found) > position else Any


def comes_back(restored: Any, value: Any) -> bool:
    """Whether equal values are alike in what `==` does not look at, inside of containers too."""
    if type(restored) is not type(value):
        return False
    if isinstance(value, defaultdict) and restored.default_factory is not value.default_factory:
        return False
    if isinstance(value, deque) and restored.maxlen != value.maxlen:
        return False
    if isinstance(value, dict):
        return all(comes_back(restored[key], inner) for key, inner in value.items())
    if isinstance(value, list | tuple | deque):
        return all(map(comes_back, restored, value))
    return True
