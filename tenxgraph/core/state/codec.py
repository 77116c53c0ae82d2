"""One encoding for states, messages, tool results, exports and the cache: JSON that keeps types.

What JSON cannot say is said by a tagged object, `{"$t": "datetime", "v": "..."}`. A user's own
dict that has the key `$t` is written as a tagged list of pairs, so it is never mistaken for one.
Stored data can name only types that are registered; nothing is imported by name.
"""

import base64
import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Container
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    Discriminator,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
)

from tenxgraph.core.exceptions import SerializationError, UnknownTypeError
from tenxgraph.core.state.frozen import FrozenDict, FrozenList
from tenxgraph.core.state.registry import GLOBAL, TypeRegistry

__all__ = ["Codec", "Json"]

Json = Any
"""What `json.dumps` takes: None, bool, int, float, str, lists and dicts with string keys."""

MARK = "$t"
_MARKED = '"$t"'
# Python refuses to parse decimal integers of more than 4,300 digits.
_LONG_INTEGER_BITS = 14_000


class Codec:
    """Turns values into JSON text and back, for one state class and the types it declares."""

    def __init__(self, state_type: type[BaseModel] | None = None) -> None:
        self.types = TypeRegistry(parent=GLOBAL)
        if state_type is not None:
            self.types.learn(state_type)

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
            if _MARKED not in text:
                return json.loads(text)
            return json.loads(text, object_hook=self._revive)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            message = f"Stored data cannot be read: {error}"
            raise SerializationError(message) from error

    def decode(self, tree: Json) -> Any:
        """Decode JSON that has been parsed already. Raises what `loads` does."""
        return self.loads(json.dumps(tree))

    def encode(self, value: Any, path: str = "value", hint: Any = Any) -> Json:
        """Turn a value into JSON; `hint` is its declared type, which need not be written down."""
        try:
            return self._encode(value, path, hint)
        except RecursionError:
            message = f"`{path}` is nested too deeply, or contains itself."
            raise SerializationError(message, path=path) from None

    def fields(self, model: BaseModel, path: str, *, skip: Container[str] = ()) -> dict[str, Json]:
        """Encode the fields of a model, extra ones included, by their declared types."""
        declared = _declared_fields(type(model))
        encoded = {
            name: value
            if (kind := type(value)) is str or kind is bool or value is None
            else self._encode(value, f"{path}.{name}", declared[name])
            for name, value in model.__dict__.items()
            if name in declared and name not in skip
        }
        for name, value in (model.__pydantic_extra__ or {}).items():
            encoded[name] = self._encode(value, f"{path}.{name}", Any)
        return encoded

    def _encode(self, value: Any, path: str, hint: Any) -> Json:
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        encoder = _ENCODERS.get(kind)
        if encoder is not None:
            return encoder(self, value, path, hint)
        if isinstance(value, BaseModel):
            return self._object(value, path, hint, lambda: self.fields(value, path))
        if isinstance(value, Enum):
            return self._enum(value, path, hint)
        if dataclasses.is_dataclass(kind):
            return self._object(value, path, hint, lambda: self._dataclass_fields(value, path))
        return self._through_pydantic(value, path, hint)

    def _int(self, value: int, _path: str, _hint: Any) -> Json:
        return value if value.bit_length() < _LONG_INTEGER_BITS else _tag("int", hex(value))

    def _float(self, value: float, _path: str, _hint: Any) -> Json:
        text = repr(value)
        # JSON has no NaN, and a JSONB column turns 1e300 into an integer of 300 digits.
        return value if math.isfinite(value) and "e" not in text else _tag("float", text)

    def _list(self, value: list[Any], path: str, hint: Any) -> Json:
        item = _argument(hint, 0, list)
        return [self._encode(entry, f"{path}[{i}]", item) for i, entry in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], path: str, hint: Any) -> Json:
        # One declared shape is enough for pydantic to make a tuple of the list again.
        hints = () if hint is Any else _arguments(hint, tuple)
        if not hints:
            items = [self._encode(entry, f"{path}[{i}]", Any) for i, entry in enumerate(value)]
            return _tag("tuple", items)
        if len(hints) == 2 and hints[1] is Ellipsis:
            hints = (hints[0],) * len(value)
        if len(hints) != len(value):
            hints = (Any,) * len(value)
        return [
            self._encode(entry, f"{path}[{i}]", item)
            for i, (entry, item) in enumerate(zip(value, hints, strict=True))
        ]

    def _dict(self, value: dict[Any, Any], path: str, hint: Any) -> Json:
        item = _argument(hint, 1, dict)
        if MARK in value or not all(type(key) is str for key in value):
            key_hint = _argument(hint, 0, dict)
            pairs = [
                [
                    self._encode(key, f"{path} key {key!r}", key_hint),
                    self._encode(entry, f"{path}[{key!r}]", item),
                ]
                for key, entry in value.items()
            ]
            return _tag("dict", pairs)
        return {key: self._encode(entry, f"{path}[{key!r}]", item) for key, entry in value.items()}

    def _set(self, value: set[Any] | frozenset[Any], path: str, hint: Any) -> Json:
        item = _argument(hint, 0, type(value))
        encoded = [self._encode(entry, f"{path}{{{entry!r}}}", item) for entry in value]
        # A set has no order of its own: the same set must give the same text.
        encoded.sort(key=lambda entry: json.dumps(entry, sort_keys=True))
        return _tag("set" if type(value) is set else "frozenset", encoded)

    def _enum(self, value: Enum, path: str, hint: Any) -> Json:
        if _is_exactly(hint, type(value)):
            return self._encode(value.value, path, Any)
        return _tag("enum", value.name, c=self._name_of(type(value), path))

    def _object(self, value: Any, path: str, hint: Any, encode: Callable[[], Json]) -> Json:
        if _is_exactly(hint, type(value)):
            fields = encode()
            return self._dict(fields, path, Any) if MARK in fields else fields
        return _tag("object", encode(), c=self._name_of(type(value), path))

    def _dataclass_fields(self, value: Any, path: str) -> dict[str, Json]:
        hints = typing.get_type_hints(type(value))
        return {
            field.name: self._encode(
                getattr(value, field.name), f"{path}.{field.name}", hints.get(field.name, Any)
            )
            for field in dataclasses.fields(value)
        }

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

    def _through_pydantic(self, value: Any, path: str, hint: Any) -> Json:
        """Use the declared type's own pydantic form, if it brings the very value back."""
        if hint is not Any:
            try:
                adapter = TypeAdapter(hint)
                dumped = adapter.dump_python(value, mode="json")
                restored = adapter.validate_python(dumped)
            except (PydanticSchemaGenerationError, ValidationError, ValueError, TypeError):
                restored = dumped = None
            if type(restored) is type(value) and restored == value:
                return self._encode(dumped, path, Any)
        message = (
            f"`{path}` holds a {type(value).__qualname__}, which cannot be stored and read back. "
            "Store plain data instead, or a registered dataclass, enum or pydantic model."
        )
        raise SerializationError(message, path=path)

    def _revive(self, document: dict[str, Any]) -> Any:
        tag = document.get(MARK)
        if tag is None:
            return document
        if tag in ("object", "enum"):
            return self._revive_registered(tag, document["c"], document["v"])
        decoder = _DECODERS.get(tag)
        if decoder is None:
            message = f"Stored data has the tag {tag!r}, which this version does not know."
            raise UnknownTypeError(message)
        return decoder(document)

    def _revive_registered(self, tag: str, name: str, stored: Any) -> Any:
        kind = self.types.type_named(name)
        if kind is None:
            message = (
                f"Stored data holds a {name!r}, which is not registered in this process. Register "
                f"the class that it is now with `register_type(cls, name={name!r})`."
            )
            raise UnknownTypeError(message)
        if tag == "enum":
            return typing.cast("type[Enum]", kind)[stored]
        if issubclass(kind, BaseModel):
            return kind.model_validate(stored, by_name=True)
        return _make_dataclass(kind, stored)


def to_text(tree: Json, path: str = "value") -> str:
    """JSON text that every database takes: compact, in UTF-8 wherever UTF-8 can say it."""
    try:
        text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        message = f"`{path}` is nested too deeply."
        raise SerializationError(message, path=path) from None
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return json.dumps(tree, separators=(",", ":"), allow_nan=False)
    return text


@functools.cache
def _declared_fields(kind: type[BaseModel]) -> dict[str, Any]:
    """The declared type of each field; a discriminated union keeps what tells it apart."""
    return {name: field.annotation for name, field in kind.model_fields.items()}


def _tag(tag: str, value: Json, **more: Json) -> dict[str, Json]:
    return {MARK: tag, **more, "v": value}


def _make_dataclass(kind: type, stored: dict[str, Any]) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    made = kind(**{name: stored[name] for name in fields if name in stored and fields[name].init})
    for name, field in fields.items():
        if name in stored and not field.init:
            object.__setattr__(made, name, stored[name])
    return made


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
def _is_exactly(hint: Any, kind: type) -> bool:
    """Whether the declared type alone says that the value is a `kind`."""
    named = _alternatives(hint)
    if typing.get_origin(hint) is typing.Annotated and any(
        isinstance(note, Discriminator) or getattr(note, "discriminator", None) is not None
        for note in typing.get_args(hint)[1:]
    ):
        return kind in named  # pydantic tells the members apart by what they say themselves
    return named == (kind,)


@_cached
def _arguments(hint: Any, container: type) -> tuple[Any, ...]:
    """What the declared type says of the contents, if it is a `container` of something."""
    named = _alternatives(hint)
    if len(named) == 1 and isinstance(origin := typing.get_origin(named[0]), type):
        return typing.get_args(named[0]) if issubclass(container, origin) else ()
    return ()


def _argument(hint: Any, position: int, container: type) -> Any:
    arguments = () if hint is Any else _arguments(hint, container)
    return arguments[position] if len(arguments) > position else Any


def _datetime(_codec: Codec, value: datetime, _path: str, _hint: Any) -> Json:
    if isinstance(value.tzinfo, ZoneInfo) and value.tzinfo.key:
        local = value.replace(tzinfo=None).isoformat()
        return _tag("datetime", local, z=value.tzinfo.key, f=value.fold)
    return _tag("datetime", value.isoformat())


def _read_datetime(document: dict[str, Any]) -> datetime:
    moment = datetime.fromisoformat(document["v"])
    if "z" in document:
        return moment.replace(tzinfo=ZoneInfo(document["z"]), fold=document["f"])
    return moment


def _plain(tag: str, write: Callable[[Any], Json]) -> Callable[[Codec, Any, str, Any], Json]:
    return lambda _codec, value, _path, _hint: _tag(tag, write(value))


_ENCODERS: dict[type, Callable[[Codec, Any, str, Any], Json]] = {
    int: Codec._int,
    float: Codec._float,
    list: Codec._list,
    FrozenList: Codec._list,
    tuple: Codec._tuple,
    dict: Codec._dict,
    FrozenDict: Codec._dict,
    set: Codec._set,
    frozenset: Codec._set,
    datetime: _datetime,
    date: _plain("date", date.isoformat),
    time: _plain("time", time.isoformat),
    timedelta: _plain("timedelta", lambda v: [v.days, v.seconds, v.microseconds]),
    Decimal: _plain("decimal", str),
    UUID: _plain("uuid", str),
    bytes: _plain("bytes", lambda v: base64.b64encode(v).decode()),
    bytearray: _plain("bytearray", lambda v: base64.b64encode(v).decode()),
    type(Path()): _plain("path", str),
    PurePosixPath: _plain("posixpath", str),
    PureWindowsPath: _plain("windowspath", str),
}

_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "int": lambda d: int(d["v"], 16),
    "float": lambda d: float(d["v"]),
    "tuple": lambda d: tuple(d["v"]),
    "dict": lambda d: {key: value for key, value in d["v"]},  # noqa: C416 - pairs are lists
    "set": lambda d: set(d["v"]),
    "frozenset": lambda d: frozenset(d["v"]),
    "datetime": _read_datetime,
    "date": lambda d: date.fromisoformat(d["v"]),
    "time": lambda d: time.fromisoformat(d["v"]),
    "timedelta": lambda d: timedelta(*d["v"]),
    "decimal": lambda d: Decimal(d["v"]),
    "uuid": lambda d: UUID(d["v"]),
    "bytes": lambda d: base64.b64decode(d["v"]),
    "bytearray": lambda d: bytearray(base64.b64decode(d["v"])),
    "path": lambda d: Path(d["v"]),
    "posixpath": lambda d: PurePosixPath(d["v"]),
    "windowspath": lambda d: PureWindowsPath(d["v"]),
}
