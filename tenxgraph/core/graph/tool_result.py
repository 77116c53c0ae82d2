"""Tool results as JSON values: whatever a tool returns or raises can be recorded and told.

Between the end of a tool and its record nothing may raise, or the tool would run again each time
that its run is resumed. So every value has a form here: JSON if there is one, else its own words,
else a text that names its type.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import islice
from typing import Any

from pydantic_core import to_jsonable_python

from tenxgraph.core.state import Message, TextBlock
from tenxgraph.core.state.blocks import are_blocks
from tenxgraph.core.state.openai_parts import is_media

__all__ = ["error_text", "to_result"]

# Deeper, a database or a parser may refuse it.
_DEEPEST = 100
# Python turns any integer of up to 640 digits into text, whatever its limit is set to.
_LARGEST_INT_BITS = 2_100
_MOST_VALUES = 100_000
_MOST_OF_AN_ITERATOR = 10_000
_SERIES = (list, tuple, set, frozenset)


def to_result(value: Any) -> Any:
    """Return a tool's result as JSON values. Never raises, whatever the value does when looked at.

    Numbers and texts of a subclass become plain ones, an enum its value, an array a list. A model
    or dataclass becomes an object, a message its text, an integer of more than 640 digits a text.
    A value that has no such form, or is nested more than 100 levels deep, becomes its own words.
    Of an iterator 10,000 values are told, of a result 100,000 in all.
    An image, sound or file stays what it is: alone, in a list of blocks, or in a message.
    """
    return _with_media(value) or _Teller().told(value)


def error_text(error: BaseException) -> str:
    """Return what an exception says, or its type's name if it cannot say anything."""
    words: str = _first(error, (_words,))
    return words


def _with_media(value: Any) -> list[Any] | None:
    """Return the blocks of a result that has an image, sound or file, or None."""
    with contextlib.suppress(BaseException):  # a list's own methods may raise anything
        if issubclass(type(value), Message):
            return _checked(value.content) if any(map(is_media, value.content)) else None
        blocks = [value] if is_media(value) else value
        if are_blocks(blocks) and any(map(is_media, blocks)) and all(map(_is_shown, blocks)):
            return _checked(blocks)
    return None


def _checked(blocks: Iterable[Any]) -> list[Any]:
    """Return the blocks; raise `ValueError` for one that was made without a check and is odd."""
    return [type(one).model_validate({**one.__dict__, **(one.model_extra or {})}) for one in blocks]


def _is_shown(block: Any) -> bool:
    return is_media(block) or isinstance(block, TextBlock)


class _Teller:
    """Tells one result, which may be endless: it stops after so many values."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def told(self, value: Any, depth: int = 0, around: tuple[int, ...] = ()) -> Any:
        """Return the value in the first form that it has.

        Args:
            value: the value, or a part of it.
            depth: how deep the part is.
            around: the identities of the containers that the part is in.
        """
        if value is None or value is True or value is False:
            return value
        self._left -= 1
        if self._left < 0 or id(value) in around:  # too much, or it contains itself
            return "..."
        return _first(value, (lambda one: self._as_json(one, depth, around), _words))

    def _as_json(self, value: Any, depth: int, around: tuple[int, ...]) -> Any:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return _as_int(int.__int__(value))
        if isinstance(value, float):
            return float.__float__(value)
        if issubclass(type(value), Message):  # and not one that only says it is a message
            return value.text()
        if depth >= _DEEPEST:
            return _words(value)
        inner = (*around, id(value))
        if isinstance(value, Mapping):
            items = self._taken(value.items())
            return {_key(key): self.told(one, depth + 1, inner) for key, one in items}
        if isinstance(value, _SERIES):
            return [self.told(one, depth + 1, inner) for one in self._taken(value)]
        if isinstance(value, Iterator):
            return self._drained(value, depth, inner)
        return self.told(_converted(value), depth + 1, inner)

    def _taken(self, values: Iterable[Any]) -> Iterator[Any]:
        """Return the values that there is room for."""
        return islice(values, max(0, self._left) + 1)

    def _drained(self, values: Iterator[Any], depth: int, inner: tuple[int, ...]) -> list[Any]:
        """Return what an iterator yields; of one that raises, also what it raises."""
        told: list[Any] = []
        try:
            for one in islice(values, _MOST_OF_AN_ITERATOR):
                told.append(self.told(one, depth + 1, inner))
        except Exception as error:  # noqa: BLE001 - the tool has done its work, whatever comes
            told.append(f"{type(error).__name__}: {error_text(error)}")
        return told


def _first(value: Any, forms: Iterable[Callable[[Any], Any]]) -> Any:
    for form in forms:
        # Also no BaseException, which a value's own methods may raise: the tool has done its work.
        with contextlib.suppress(BaseException):
            return form(value)
    return f"A value of type {type(value).__name__}, which cannot be told."


def _words(value: Any) -> str:
    return str.__str__(str(value))


def _as_int(value: int) -> int | str:
    if value.bit_length() <= _LARGEST_INT_BITS:
        return value
    try:
        return str(value)
    except ValueError:  # beyond the limit that is set here
        return hex(value)


def _converted(value: Any) -> Any:
    """Return what a value that is neither JSON nor a container stands for."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    as_list = getattr(value, "tolist", None)  # arrays and their scalars
    if callable(as_list):
        return as_list()
    return to_jsonable_python(value, fallback=_words, bytes_mode="base64")


def _key(key: Any) -> str:
    """Return the key of a dict as JSON has it: text."""
    if isinstance(key, str):
        return str.__str__(key)
    told = _Teller().told(key, _DEEPEST - 1)
    if isinstance(told, str):
        return told
    text: str = _first(key, (lambda one: next(iter(to_jsonable_python({one: None}))), _words))
    return text
