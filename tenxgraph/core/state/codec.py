"""One encoding for states, messages, tool results, exports and the cache: JSON that keeps types.

What JSON cannot say is said by a tagged object, `{"$t": "datetime", "v": "..."}`. A user's own
dict that has the key `$t` is written as a tagged list of pairs, so it is never mistaken for one.
Stored data can name only types that are registered; nothing is imported by name.
"""

import dataclasses
import functools
import json
import typing
from collections import deque
from collections.abc import Callable, Container, Mapping
from enum import Enum, Flag
from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
)

from tenxgraph.core.exceptions import SerializationError, UnknownTypeError
from tenxgraph.core.state import scalars
from tenxgraph.core.state.frozen import FrozenDict, FrozenList
from tenxgraph.core.state.hints import argument, arguments, comes_back, is_exactly
from tenxgraph.core.state.nesting import MAX_DEPTH, on_fresh_stack, too_deep
from tenxgraph.core.state.registry import GLOBAL, TypeRegistry
from tenxgraph.core.state.scalars import MARK, Json, tag

__all__ = ["Codec", "first_problem", "to_text"]

R = TypeVar("R")

_NO_DEPTHS: Mapping[str, int] = {}
_MARKED = '"$t"'


class Codec:
    """Turns values into JSON text and back, for one state class and the types it declares."""

    def __init__(self, state_type: type[BaseModel] | None = None) -> None:
        self.types = TypeRegistry(parent=GLOBAL)
        if state_type is not None:
            self.types.add(state_type)

    def dumps(self, value: Any, path: str = "value") -> str:
        """Encode a value of any supported type.

        Raises:
            SerializationError: it holds something that cannot come back as what it was; the
                error names the path.
        """
        return to_text(self.encode(value, path), path)

    def loads(self, text: str) -> Any:
        """Decode what `dumps` made.

        Raises:
            UnknownTypeError: the data names a type that is not registered.
            SerializationError: the text is not JSON of this encoding.
        """
        try:
            hook = self._revive if _MARKED in text else None
            return on_fresh_stack(functools.partial(json.loads, object_hook=hook), text)
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            message = f"Stored data cannot be read: {error}"
            raise SerializationError(message) from error

    def decode(self, tree: Json) -> Any:
        """Decode JSON that has been parsed already. Raises what `loads` does."""
        return self.loads(on_fresh_stack(json.dumps, tree))

    def decode_or_leave(self, tree: Json) -> Any:
        """Decode parsed JSON, or leave it as it is stored where that cannot be done any more."""
        try:
            return self.decode(tree)
        except (SerializationError, ValidationError):
            return tree

    def encode(self, value: Any, path: str = "value", hint: Any = Any) -> Json:
        """Turn a value into JSON; `hint` is its declared type, which need not be written down."""
        return self._on_fresh_stack(self._encode, value, path, hint)

    def fields(
        self,
        model: BaseModel,
        path: str,
        *,
        skip: Container[str] = (),
        depths: Mapping[str, int] = _NO_DEPTHS,
    ) -> dict[str, Json]:
        """Encode the fields of a model, extra ones included, by their declared types.

        Args:
            model: the model.
            path: what errors call it.
            skip: fields that are left out.
            depths: by field, how deep it counts as nested; less than 0 where it has levels of its
                own in which no value of a user's can be.
        """
        return self._on_fresh_stack(self._fields, model, path, 0, skip, depths)

    @staticmethod
    def _on_fresh_stack(encode: Callable[..., R], value: Any, path: str, *more: Any) -> R:
        try:
            return on_fresh_stack(encode, value, path, *more)
        except RecursionError:
            raise too_deep(path) from None

    def _fields(
        self,
        model: BaseModel,
        path: str,
        depth: int,
        skip: Container[str] = (),
        depths: Mapping[str, int] = _NO_DEPTHS,
    ) -> dict[str, Json]:
        declared = _declared_fields(type(model))
        encoded = {
            name: value
            if (kind := type(value)) is str or kind is bool or value is None
            else self._encode(value, f"{path}.{name}", declared[name], depths.get(name, depth))
            for name, value in model.__dict__.items()
            if name in declared and name not in skip
        }
        for name, value in (model.__pydantic_extra__ or {}).items():
            encoded[name] = self._encode(value, f"{path}.{name}", Any, depth)
        return unmistakable(encoded)

    def _encode(self, value: Any, path: str, hint: Any, depth: int = 0) -> Json:
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind in scalars.WRITERS:
            return scalars.WRITERS[kind](value)
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep(path)
        encoder = _ENCODERS.get(kind)
        if encoder is not None:
            return encoder(self, value, path, hint, depth)
        if isinstance(value, BaseModel):
            _check_model(value, path)
            return self._object(value, path, hint, lambda: self._fields(value, path, depth))
        if isinstance(value, Enum):
            return self._enum(value, path, hint, depth)
        if dataclasses.is_dataclass(kind):
            return self._dataclass(value, path, hint, depth)
        return self._through_pydantic(value, path, hint, depth)

    def _list(self, value: list[Any], path: str, hint: Any, depth: int) -> Json:
        item = argument(hint, 0, list)
        return [self._encode(entry, f"{path}[{i}]", item, depth) for i, entry in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], path: str, hint: Any, depth: int) -> Json:
        # One declared shape is enough for pydantic to make a tuple of the list again.
        hints = () if hint is Any else arguments(hint, tuple)
        if not hints:
            items = [
                self._encode(entry, f"{path}[{i}]", Any, depth) for i, entry in enumerate(value)
            ]
            return tag("tuple", items)
        if len(hints) == 2 and hints[1] is Ellipsis:
            hints = (hints[0],) * len(value)
        if len(hints) != len(value):
            hints = (Any,) * len(value)
        return [
            self._encode(entry, f"{path}[{i}]", item, depth)
            for i, (entry, item) in enumerate(zip(value, hints, strict=True))
        ]

    def _dict(self, value: dict[Any, Any], path: str, hint: Any, depth: int) -> Json:
        item = argument(hint, 1, dict)
        if MARK in value or not all(type(key) is str for key in value):
            # Keys say themselves what they are: read as a mere list, one could be no key.
            pairs = [
                [
                    self._encode(key, f"{path} key {key!r}", Any, depth),
                    self._encode(entry, f"{path}[{key!r}]", item, depth),
                ]
                for key, entry in value.items()
            ]
            return tag("dict", pairs)
        return {
            key: self._encode(entry, f"{path}[{key!r}]", item, depth)
            for key, entry in value.items()
        }

    def _deque(self, value: deque[Any], path: str, hint: Any, depth: int) -> Json:
        item = argument(hint, 0, deque)
        items = [self._encode(one, f"{path}[{i}]", item, depth) for i, one in enumerate(value)]
        return tag("deque", items, n=value.maxlen)

    def _set(self, value: set[Any] | frozenset[Any], path: str, _hint: Any, depth: int) -> Json:
        # Members say themselves what they are: read as a mere list, one could be no member.
        encoded = [self._encode(entry, f"{path}{{{entry!r}}}", Any, depth) for entry in value]
        # A set has no order of its own: the same set must give the same text.
        encoded.sort(key=lambda entry: json.dumps(entry, sort_keys=True))
        return tag("set" if type(value) is set else "frozenset", encoded)

    def _enum(self, value: Enum, path: str, hint: Any, depth: int) -> Json:
        if is_exactly(hint, type(value)):
            return self._encode(value.value, path, Any, depth)
        # Flags that are set together have no name that could be looked up.
        stored = value.value if isinstance(value, Flag) else value.name
        return tag("enum", stored, c=self._name_of(type(value), path))

    def _object(self, value: Any, path: str, hint: Any, encode: Callable[[], Json]) -> Json:
        if is_exactly(hint, type(value)):
            return encode()
        return tag("object", encode(), c=self._name_of(type(value), path))

    def _dataclass(self, value: Any, path: str, hint: Any, depth: int) -> Json:
        declared = is_exactly(hint, type(value))
        if declared:
            _check_dataclass(value, path)
        # What is read back by its declared type is read by pydantic, which knows the types of its
        # fields; else every field has to say itself what it is.
        hints = typing.get_type_hints(type(value), include_extras=True) if declared else {}
        fields = {}
        for field in dataclasses.fields(value):
            name, its_hint = field.name, hints.get(field.name, Any)
            fields[name] = self._encode(getattr(value, name), f"{path}.{name}", its_hint, depth)
        return self._object(value, path, hint, lambda: fields)

    def _name_of(self, kind: type, path: str) -> str:
        name = self.types.name_of(kind)
        if name is None:
            message = (
                f"`{path}` holds a {kind.__qualname__}, which is not registered, so it could not "
                "be read back. Declare it as the type of a state field, or call "
                f"`register_type({kind.__name__})`."
            )
            raise SerializationError(message, path=path)
        return name

    def _through_pydantic(self, value: Any, path: str, hint: Any, depth: int) -> Json:
        """Use the declared type's own pydantic form, if it brings the very value back."""
        if hint is not Any:
            try:
                adapter = TypeAdapter(hint)
                dumped = adapter.dump_python(value, mode="json")
                restored = adapter.validate_python(dumped)
            except (PydanticSchemaGenerationError, ValidationError, ValueError, TypeError):
                restored = dumped = None
            if restored == value and comes_back(restored, value):
                return self._encode(dumped, path, Any, depth)
        message = (
            f"`{path}` holds a {type(value).__qualname__}, which cannot be stored and read back. "
            "Store plain data instead, or a registered dataclass, enum or pydantic model."
        )
        raise SerializationError(message, path=path)

    def _revive(self, document: dict[str, Any]) -> Any:
        kind = document.get(MARK)
        if kind is None:
            return document
        if kind in ("object", "enum"):
            return self._revive_registered(document["c"], document["v"])
        decoder = _DECODERS.get(kind)
        if decoder is None:
            message = f"Stored data has the tag {kind!r}, which this version does not know."
            raise UnknownTypeError(message)
        return decoder(document)

    def _revive_registered(self, name: str, stored: Any) -> Any:
        kind = self.types.type_named(name)
        if kind is None:
            message = (
                f"Stored data holds a {name!r}, which is not registered in this process. Register "
                f"the class that it is now with `register_type(cls, name={name!r})`."
            )
            raise UnknownTypeError(message)
        if issubclass(kind, Enum):
            return kind(stored) if issubclass(kind, Flag) else kind[stored]
        if issubclass(kind, BaseModel):
            return kind.model_validate(stored, by_name=True)
        return _make_dataclass(kind, stored)


# Made once: `json.dumps` makes an encoder for every call that is not all defaults.
_write_utf8 = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_write_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def to_text(tree: Json, path: str = "value") -> str:
    """JSON text that every database takes: compact, in UTF-8 wherever UTF-8 can say it."""
    try:
        text = on_fresh_stack(_write_utf8, tree)
    except RecursionError:
        raise too_deep(path) from None
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return on_fresh_stack(_write_ascii, tree)
    return text


@functools.cache
def _declared_fields(kind: type[BaseModel]) -> dict[str, Any]:
    """The declared type of each field; a discriminated union keeps what tells it apart."""
    return {name: field.annotation for name, field in kind.model_fields.items()}


def unmistakable(fields: dict[str, Json]) -> dict[str, Json]:
    """Encoded fields, in a form that is not taken for a tagged object even if one is named so."""
    return tag("dict", [[*pair] for pair in fields.items()]) if MARK in fields else fields


def _check_model(value: BaseModel, path: str) -> None:
    """Refuse what could be saved but never loaded: a field that was set to what it may not be."""
    if not value.model_config.get("frozen"):
        fields = {**value.__dict__, **(value.__pydantic_extra__ or {})}
        _check(lambda: type(value).model_validate(fields, by_name=True), path)


def _check_dataclass(value: Any, path: str) -> None:
    kind: Any = type(value)
    fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(kind) if one.init}
    _check(lambda: _adapter(kind).validate_python(fields), path)


def _check(load: Callable[[], object], path: str) -> None:
    try:
        load()
    except ValidationError as error:
        field, problem = first_problem(error)
        path = f"{path}.{field}"
        raise SerializationError(f"`{path}` cannot be saved: {problem}", path=path) from error


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Which field is wrong, and what is."""
    first = error.errors(include_url=False)[0]
    return ".".join(map(str, first["loc"])) or "(all)", first["msg"]


@functools.cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _make_dataclass(kind: type, stored: dict[str, Any]) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    made = kind(**{name: stored[name] for name in fields if name in stored and fields[name].init})
    for name, field in fields.items():
        if name in stored and not field.init:
            object.__setattr__(made, name, stored[name])
    return made


_ENCODERS: dict[type, Callable[[Codec, Any, str, Any, int], Json]] = {
    list: Codec._list,
    FrozenList: Codec._list,
    tuple: Codec._tuple,
    dict: Codec._dict,
    FrozenDict: Codec._dict,
    set: Codec._set,
    frozenset: Codec._set,
    deque: Codec._deque,
}

_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = scalars.READERS | {
    "tuple": lambda d: tuple(d["v"]),
    "dict": lambda d: {key: value for key, value in d["v"]},  # noqa: C416 - pairs are lists
    "set": lambda d: set(d["v"]),
    "frozenset": lambda d: frozenset(d["v"]),
    "deque": lambda d: deque(d["v"], d["n"]),
}
