"""The types that stored data may name: an explicit list, never an import by name."""

import dataclasses
import enum
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel

__all__ = ["TypeRegistry", "register_type"]

T = TypeVar("T", bound=type)


def is_supported(kind: object) -> typing.TypeGuard[type]:
    """Whether values of this type can be stored field by field, or by member name."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel | enum.Enum)
    )


class TypeRegistry:
    """Names for classes and classes for names, with an optional registry to fall back on."""

    def __init__(self, parent: "TypeRegistry | None" = None) -> None:
        self._parent = parent
        self._names: dict[type, str] = {}
        self._types: dict[str, type] = {}
        self._not_looked_into: list[type] = []

    def add(self, kind: type, name: str | None = None) -> None:
        """Register `kind`, and what it declares in its fields, at every depth.

        A class defined anew under an old name takes its place.

        Raises:
            TypeError: it is no enum, dataclass or pydantic model.
        """
        if not is_supported(kind):
            message = (
                f"{kind!r} cannot be registered: only enums, dataclasses and pydantic models can."
            )
            raise TypeError(message)
        name = name or f"{kind.__module__}.{kind.__qualname__}"
        self._names[kind] = name
        self._types[name] = kind
        self._not_looked_into.append(kind)

    def name_of(self, kind: type) -> str | None:
        """The name `kind` is stored under, or `None` if it is not registered."""
        self._look_into_new()
        return self._known_name(kind)

    def type_named(self, name: str) -> type | None:
        """The class registered under `name`, or `None`."""
        self._look_into_new()
        own = self._types.get(name)
        return own if own is not None or self._parent is None else self._parent.type_named(name)

    def _look_into_new(self) -> None:
        """Learn the declared types late: a class may name one that is defined after it."""
        while self._not_looked_into:
            for annotation in _annotations(self._not_looked_into.pop()):
                for mentioned in _mentioned(annotation):
                    if self._known_name(mentioned) is None:
                        self.add(mentioned)

    def _known_name(self, kind: type) -> str | None:
        own = self._names.get(kind)
        return own if own is not None or self._parent is None else self._parent.name_of(kind)


def _annotations(kind: type) -> Iterator[Any]:
    if issubclass(kind, BaseModel):
        yield from (field.annotation for field in kind.model_fields.values())
    elif dataclasses.is_dataclass(kind):
        yield from typing.get_type_hints(kind).values()


def _mentioned(annotation: Any) -> Iterator[type]:
    """Every class an annotation names: `dict[str, Box[Inner] | None]` names `Box[Inner]`."""
    if isinstance(annotation, type) and is_supported(annotation):
        yield annotation
        # A parametrised pydantic generic is a class of its own and has no `get_args`.
        return
    for argument in typing.get_args(annotation):
        yield from _mentioned(argument)


GLOBAL = TypeRegistry()


def register_type(kind: T, *, name: str | None = None) -> T:
    """Let values of this enum, dataclass or pydantic model be stored where no type is declared.

    Types that a state class declares in its fields are known without it. Usable as a decorator.

    Args:
        kind: the class.
        name: what it is called in stored data; by default its module and qualified name. Give
            one to keep old data readable when the class moves or is renamed.
    """
    GLOBAL.add(kind, name)
    return kind
