"""Values come back with their types, or are refused before anything is written."""

import dataclasses
import enum
import math
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from backends import Backend, Checkpointer
from pydantic import BaseModel, Field
from threads import config, message, present, state

from tenxgraph.core.exceptions import SerializationError, UnknownTypeError
from tenxgraph.core.state import AgentState, Message, UnknownBlock, register_type

T = TypeVar("T")


class Animal(BaseModel):
    name: str


@register_type
class Dog(Animal):
    breed: str = "mutt"


class Inner(BaseModel):
    x: int


class Box(BaseModel, Generic[T]):
    item: T


class Doc(BaseModel):
    class Phase(enum.StrEnum):
        DRAFT = "draft"
        DONE = "done"

    phase: Phase
    boxes: list[Box[Inner]]
    base: Animal


@register_type
class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@register_type
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int
    tags: tuple[str, ...] = ()


@register_type
@dataclasses.dataclass
class Route:
    start: Point
    stops: list[Point]
    access: Access
    back: "Route | None" = None


class Free(AgentState):
    """A state with one field of any type, and some of declared types."""

    value: Any = None
    doc: Doc | None = None
    seen: set[tuple[int, int]] = Field(default_factory=set)
    by_place: dict[tuple[int, int], Point] = Field(default_factory=dict)
    places: set[Point] = Field(default_factory=set)
    access: Access = Access.READ
    pet: Animal | None = None
    due: datetime | None = None
    price: Decimal | None = None
    raw: bytes = b""


class FreeAndMoved(AgentState):
    value: Any = None


async def round_trip(checkpointer: Checkpointer, written: AgentState) -> Any:
    mine = config()
    await checkpointer.aput_state(mine, written)
    return await checkpointer.aget_state(mine)


async def value_back(checkpointer: Checkpointer, value: Any) -> Any:
    return (await round_trip(checkpointer, Free(value=value))).value


def same(one: Any, other: Any) -> bool:
    """Equal, of equal types at every depth, NaN equal to itself and 0.0 not to -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(a, b) for pair in zip(one.items(), other.items(), strict=True)
            for a, b in zip(*pair, strict=True)
        )  # fmt: skip
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


VALUES: dict[str, Any] = {
    "NUL": {"a": "x\x00y", "k\x00": ["\x00"], "lit": r"\u0000", "n": {"t": "\x00" * 3}},
    "floats": [1.0, math.nan, math.inf, -math.inf, -0.0, 1e300, 5e-324, 0.1],
    "big ints": [2**53 + 1, 2**63, -(2**63) - 1, 2**256, 10**5000, -1, 0],
    "int or bool": [1, True, 0, False, None],
    "times": {
        "utc": datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "naive": datetime(2024, 1, 2),
        "zone": datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        "date": date(2024, 1, 2),
        "time": time(1, 2, 3, 4),
        "time with zone": time(12, tzinfo=ZoneInfo("Europe/Berlin")),
        "delta": timedelta(days=-1, seconds=3, microseconds=5),
        "first": datetime.min,
        "last": date.max,
    },
    "scalars": [Decimal("0.10"), UUID(int=7), b"\x00\xff", bytearray(b"x"), Path("/a/b")],
    "containers": [(1, (2,)), {1, "a"}, frozenset({(1, 2)}), (), set(), [], {}],
    "keys": {1: "int", (1, 2): "tuple", None: "none", False: "bool", 1.5: "float", "s": "str"},
    "order": {"z": 1, "a": 2, "m": {"y": 1, "b": 2}},
    "marker": {"$t": "datetime", "v": "2024-01-01"},
    "marker inside": [{"$t": {"$t": "object", "c": "os.system", "v": {}}}],
    "lookalikes": {"lc": 1, "type": "constructor", "id": ["os", "system"]},
    "text": ["\ud800", "\ue000", "\ue0000041", "\u2028", '"', "\\", "日本 🧳", ""],
    "long": "x" * 1_000_000,
    "flags": [Access.READ, Access.READ | Access.WRITE, Access(0)],
    "dataclass": Route(
        start=Point(1, 2, ("a",)),
        stops=[Point(3, 4)],
        access=Access.READ | Access.WRITE,
        back=Route(Point(0, 0), [], Access.READ),
    ),
    "set of dataclasses": {Point(1, 2), Point(3, 4)},
    "model": Dog(name="Rex"),
}


async def test_free_values_come_back_with_their_types(checkpointer: Checkpointer) -> None:
    for name, value in VALUES.items():
        assert same(await value_back(checkpointer, value), value), name


async def test_free_values_come_back_in_messages_too(checkpointer: Checkpointer) -> None:
    for name, value in VALUES.items():
        sent = Message(role="user", message_id=name, metadata={"v": value}, raw=[value])
        await checkpointer.aput_messages(config(), [sent])
        read = await checkpointer.aget_message(config(), name)
        assert read is not None
        if name != "floats":  # NaN is not equal to itself
            assert read == sent, name
        assert same(read.metadata["v"], sent.metadata["v"]), name


async def test_declared_values_come_back_with_their_types(checkpointer: Checkpointer) -> None:
    written = Free(
        doc=Doc(
            phase=Doc.Phase.DONE,
            boxes=[Box[Inner](item=Inner(x=1))],
            base=Dog(name="Rex", breed="collie"),
        ),
        seen={(1, 2), (3, 4)},
        by_place={(1, 2): Point(1, 2, ("a", "b"))},
        places={Point(1, 2)},
        access=Access.READ | Access.WRITE,
        pet=Dog(name="Bo"),
        due=datetime(2024, 1, 2, tzinfo=UTC),
        price=Decimal("1.10"),
        raw=b"\x00\xff",
    )
    read = await round_trip(checkpointer, written)
    assert read == written
    assert read.doc.phase is Doc.Phase.DONE
    assert type(read.doc.boxes[0]) is Box[Inner]
    assert type(read.doc.base) is Dog
    assert type(read.pet) is Dog
    assert type(next(iter(read.places))) is Point


async def test_extra_fields_may_have_any_name(checkpointer: Checkpointer) -> None:
    odd = {"$t": "datetime", "v": "x", "a\x00b": 1, "": 2, "context ": 3}
    read = await round_trip(checkpointer, AgentState(**odd))
    assert {name: getattr(read, name) for name in odd} == odd


async def test_blocks_of_an_unknown_kind_survive(checkpointer: Checkpointer) -> None:
    odd = UnknownBlock(type="hologram", **{"$t": "date", "when": date(2024, 1, 2), "v": [1]})
    sent = Message(role="user", message_id="m", content=(odd,))
    await checkpointer.aput_messages(config(), [sent])
    assert await checkpointer.aget_message(config(), "m") == sent


class Unregistered(BaseModel):
    x: int = 1


class Plain:
    pass


class Text(str):
    __slots__ = ()


circular: list[Any] = []
circular.append(circular)
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]

REFUSED: dict[str, tuple[Any, str]] = {
    "function": ({"fn": lambda: 1}, r"state\.value\['fn'\]"),
    "object": ([1, Plain()], r"state\.value\[1\]"),
    "class": (Plain, r"state\.value"),
    "unregistered model": ({"m": [Unregistered()]}, r"state\.value\['m'\]\[0\].*register_type"),
    "subclass of a type": (Text("x"), r"state\.value.*Text"),
    "ordered dict": (OrderedDict(a=1), r"OrderedDict"),
    "generator": ((i for i in [1]), r"generator"),
    "complex": (1j, r"complex"),
    "exception": (ValueError("x"), r"ValueError"),
    "itself": (circular, r"nested too deeply"),
    "depth": (deep, r"nested too deeply"),
}


async def test_what_cannot_come_back_is_refused_before_anything_is_written(
    checkpointer: Checkpointer,
) -> None:
    for name, (value, words) in REFUSED.items():
        with pytest.raises(SerializationError, match=words):
            await checkpointer.aput_state(config(name), Free(value=value))
        assert await checkpointer.aget_thread(config(name)) is None, name


async def test_metadata_that_cannot_come_back_is_refused(checkpointer: Checkpointer) -> None:
    bad = {"fn": print}
    broken = Message(role="user", metadata=bad)
    with pytest.raises(SerializationError, match=r"metadata\['fn'\]"):
        await checkpointer.aput_checkpoint(config(), state("a"), metadata=bad)
    with pytest.raises(SerializationError, match=r"thread_meta\['fn'\]"):
        await checkpointer.aput_state(config(thread_meta=bad), state("a"))
    with pytest.raises(SerializationError, match=r"messages\[1\]\.metadata\['fn'\]"):
        await checkpointer.aput_messages(config(), [message("fine"), broken])
    with pytest.raises(SerializationError, match=r"messages\[0\]\.metadata\['fn'\]"):
        await checkpointer.aput_messages(config(), [message("fine")], bad)
    assert await checkpointer.aget_thread(config()) is None


async def test_deep_nesting_within_reason_comes_back(checkpointer: Checkpointer) -> None:
    value: Any = "bottom"
    for _ in range(50):
        value = [{"in": (value,)}]
    assert await value_back(checkpointer, value) == value


async def test_a_class_that_is_gone_is_an_error_that_names_it(backend: Backend) -> None:
    @register_type
    class Gone(BaseModel):
        x: int = 1

    here, there = f"shop.{uuid4()}", f"warehouse.{uuid4()}"
    register_type(Gone, name=here)
    writer = backend.make()
    await writer.aput_state(config(), Free(value=Gone()))
    lines = [line async for line in writer.aexport_thread(config())]
    moved = [line.replace(here, there) for line in lines]
    reader = backend.make()
    await reader.aimport_thread(config("moved"), moved)
    reader.bind_state_type(FreeAndMoved)
    with pytest.raises(UnknownTypeError, match=f"'moved', version 1.*{there}"):
        await reader.aget_state(config("moved"))
    register_type(Gone, name=there)
    assert present(await reader.aget_state(config("moved"))).value == Gone()


async def test_stored_data_cannot_name_a_class_that_was_not_registered(
    backend: Backend, tmp_path: Path
) -> None:
    trap = tmp_path / "pwned"
    writer = backend.make()
    await writer.aput_state(config(), Free(value="HERE"))
    lines = [line async for line in writer.aexport_thread(config())]
    for number, name in enumerate(("os.system", "subprocess.Popen", "builtins.eval")):
        envelope = f'{{"$t":"object","c":"{name}","v":{{"args":["touch {trap}"]}}}}'
        mine = config(f"evil {number}")
        await writer.aimport_thread(mine, [line.replace('"HERE"', envelope) for line in lines])
        with pytest.raises(UnknownTypeError, match=name):
            await writer.aget_state(mine)
    assert not trap.exists()


async def test_one_unreadable_record_does_not_hide_the_others(backend: Backend) -> None:
    writer = backend.make()
    await writer.aput_state(config("good", thread_meta={"a": 1}), state("a"))
    lines = [line async for line in writer.aexport_thread(config("good"))]
    strange = '{"a": {"$t": "object", "c": "gone.Type", "v": {}}}'
    broken = [
        line.replace('"meta":{"a":1}', f'"meta":{strange}').replace(
            '"meta":{}', f'"meta":{strange}'
        )
        for line in lines
    ]
    await writer.aimport_thread(config("strange"), broken)
    names = [one.thread_id for one in await writer.alist_threads({"user_id": "u"})]
    assert sorted(names) == ["good", "strange"]
    metadata = present(await writer.aget_thread(config("strange"))).metadata
    assert present(metadata)["a"]["c"] == "gone.Type"
    assert [one.version for one in await writer.alist_states(config("strange"))] == [1]
    assert await writer.aclean_thread(config("strange"))


async def test_integers_of_tokens_may_be_absurd(checkpointer: Checkpointer) -> None:
    sent = Message(role="assistant", message_id="m", usages={"total_tokens": 2**80})
    await checkpointer.aput_state(config(), AgentState(context=[sent]))
    assert await checkpointer.aget_message(config(), "m") == sent
