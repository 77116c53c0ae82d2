"""Single values that JSON cannot say, as tagged objects: `{"$t": "datetime", "v": "..."}`."""

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

__all__ = ["MARK", "READERS", "WRITERS", "Json", "forms", "tag"]

Json = Any
"""What `json.dumps` takes: None, bool, int, float, str, lists and dicts with string keys."""

MARK = "$t"
# Python refuses to parse decimal integers of more than 4,300 digits.
_LONG_INTEGER_BITS = 14_000


def tag(kind: str, value: Json, **more: Json) -> dict[str, Json]:
    """An object that says what its value is."""
    return {MARK: kind, **more, "v": value}


def _int(value: int) -> Json:
    return value if value.bit_length() < _LONG_INTEGER_BITS else tag("int", hex(value))


def _float(value: float) -> Json:
    text = repr(value)
    # JSON has no NaN, and a JSONB column makes an integer of 300 digits of 1e300, and 0 of -0.0.
    plain = math.isfinite(value) and "e" not in text and text != "-0.0"
    return value if plain else tag("float", text)


def forms(value: Json) -> list[Json]:
    """How a value that equals this plain one may be written: 1e16 is written unlike 10**16."""
    if type(value) not in (int, float):
        return [value]
    whole = int(value)
    equal_floats = (_float(one) for one in (float(value), -float(value)) if one == value)
    tagged = [form for form in equal_floats if isinstance(form, dict)]
    return [whole if whole == value else value, *tagged]


def _bytes(kind: str) -> Callable[[Any], Json]:
    return lambda value: tag(kind, base64.b64encode(value).decode())


def _text(kind: str) -> Callable[[Any], Json]:
    return lambda value: tag(kind, str(value))


def _moment(kind: str) -> Callable[[Any], Json]:
    def write(value: datetime | time) -> Json:
        if isinstance(value.tzinfo, ZoneInfo) and value.tzinfo.key:
            local = value.replace(tzinfo=None).isoformat()
            return tag(kind, local, z=value.tzinfo.key, f=value.fold)
        more: dict[str, Json] = {"f": 1} if value.fold else {}
        # The offset is in the text already; a name of the zone's own is not.
        if type(value.tzinfo) is timezone and repr(value.tzinfo) != repr(_unnamed(value.tzinfo)):
            more["n"] = value.tzinfo.tzname(None)
        return tag(kind, value.isoformat(), **more)

    return write


def _unnamed(zone: timezone) -> timezone:
    return timezone(zone.utcoffset(None))


def _read_moment(kind: type[datetime] | type[time]) -> Callable[[dict[str, Any]], Any]:
    def read(document: dict[str, Any]) -> datetime | time:
        moment = kind.fromisoformat(document["v"])
        if "z" in document:
            return moment.replace(tzinfo=ZoneInfo(document["z"]), fold=document["f"])
        if "n" in document:
            offset = moment.utcoffset() or timedelta()
            moment = moment.replace(tzinfo=timezone(offset, document["n"]))
        return moment.replace(fold=document.get("f", 0))

    return read


WRITERS: dict[type, Callable[[Any], Json]] = {
    int: _int,
    float: _float,
    datetime: _moment("datetime"),
    date: lambda value: tag("date", value.isoformat()),
    time: _moment("time"),
    timedelta: lambda value: tag("timedelta", [value.days, value.seconds, value.microseconds]),
    Decimal: _text("decimal"),
    UUID: _text("uuid"),
    bytes: _bytes("bytes"),
    bytearray: _bytes("bytearray"),
    type(Path()): _text("path"),
    PurePosixPath: _text("posixpath"),
    PureWindowsPath: _text("windowspath"),
}

READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "int": lambda d: int(d["v"], 16),
    "float": lambda d: float(d["v"]),
    "datetime": _read_moment(datetime),
    "date": lambda d: date.fromisoformat(d["v"]),
    "time": _read_moment(time),
    "timedelta": lambda d: timedelta(*d["v"]),
    "decimal": lambda d: Decimal(d["v"]),
    "uuid": lambda d: UUID(d["v"]),
    "bytes": lambda d: base64.b64decode(d["v"]),
    "bytearray": lambda d: bytearray(base64.b64decode(d["v"])),
    "path": lambda d: Path(d["v"]),
    "posixpath": lambda d: PurePosixPath(d["v"]),
    "windowspath": lambda d: PureWindowsPath(d["v"]),
}
