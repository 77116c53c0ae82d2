"""The codec: any supported value comes back equal, with its types."""

import dataclasses
import enum
import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tenxgraph.core.exceptions import SerializationError, UnknownTypeError
from tenxgraph.core.state import AgentState, register_type
from tenxgraph.core.state.codec import Codec, to_text
from tenxgraph.core.state.registry import TypeRegistry
from tenxgraph.core.state.state_codec import StateCodec

codec = Codec()


@register_type
class Color(enum.Enum):
    RED = "r"
    TUPLE = (1, 2)


@register_type
class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


@register_type
@dataclasses.dataclass(frozen=True)
class Node:
    value: Any = None
    children: "tuple[Node, ...]" = ()
    computed: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "computed", len(self.children))


def back(value: Any) -> Any:
    return codec.loads(codec.dumps(value))


def same(one: Any, other: Any) -> bool:
    """Equal, of equal types at every depth, NaN equal to itself and 0.0 not to -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float | Decimal):
        return repr(one) == repr(other)
    if isinstance(one, Node):
        return same(vars(one), vars(other))
    if isinstance(one, dict):
        return same([*one.keys(), *one.values()], [*other.keys(), *other.values()])
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


text = st.text(st.characters(), max_size=20)
zones = st.sampled_from(
    [None, UTC, timezone(timedelta(hours=-5, minutes=-30)), ZoneInfo("Asia/Tokyo")]
)
hashable = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**300), 2**300),
    st.floats(allow_nan=False),
    text,
    st.sampled_from(["$t", "v", "c", "\x00", "\ud800", "\ue000"]),
    st.binary(max_size=20),
    st.datetimes(timezones=zones).map(lambda moment: moment.replace(fold=0)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.sampled_from([*Color, *Level, Level.LOW | Level.HIGH]),
    st.builds(PurePosixPath, st.sampled_from(["a/b", "/", "."])),
)
keys = st.recursive(hashable, lambda inner: st.tuples(inner, inner), max_leaves=4)
# Members that are equal but of different types, such as 1 and True, displace each other in any set.
plain_keys = st.one_of(text, st.tuples(text, st.integers()), st.binary(max_size=5), st.dates())
values = st.recursive(
    st.one_of(hashable, st.just(math.nan), st.just(math.inf), st.just(-0.0)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(st.sampled_from(["$t", "v", "c", "a"]), inner, max_size=4),
        st.sets(plain_keys, max_size=4),
        st.frozensets(plain_keys, max_size=4),
        inner.map(lambda value: Node(value, (Node(value),))),
    ),
    max_leaves=15,
)


@given(values)
@settings(max_examples=300, deadline=None)
def test_any_supported_value_comes_back_with_its_types(value: Any) -> None:
    assert same(back(value), value)


@given(values)
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_json_that_any_database_takes(value: Any) -> None:
    written = codec.dumps(value)
    written.encode()
    assert "\x00" not in written
    json.loads(written, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@given(values)
@settings(max_examples=100, deadline=None)
def test_encoding_again_gives_the_same_text(value: Any) -> None:
    assert codec.dumps(back(value)) == codec.dumps(value)


@given(st.dictionaries(st.sampled_from(["$t", "v", "c", "z", "f"]), text, min_size=1))
def test_a_dict_that_looks_like_a_tag_stays_a_dict(lookalike: dict[str, str]) -> None:
    assert back(lookalike) == lookalike
    assert back([{"in": lookalike}]) == [{"in": lookalike}]


def test_the_repeated_hour_of_a_zone_is_told_apart() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for fold in (0, 1):
        moment = datetime(2024, 10, 27, 2, 30, tzinfo=berlin, fold=fold)
        read = back(moment)
        assert (read, read.fold, read.tzinfo, read.utcoffset()) == (
            moment, fold, berlin, moment.utcoffset(),
        )  # fmt: skip
    assert back(time(12, tzinfo=berlin)).tzinfo is berlin


def test_scalars_one_by_one() -> None:
    for value in (
        datetime.min, datetime.max, date.min, time.max, timedelta.min, timedelta.max,
        Decimal("0.10"), Decimal("NaN"), Decimal("-Infinity"), Decimal("1E+999"),
        UUID(int=0), b"", bytearray(b"\x00"), Path("."), PureWindowsPath("c:\\x"), 10**5000,
        -(10**5000), 1e16, 1e-7, 5e-324, 1.7976931348623157e308, Color.TUPLE, Color.RED, Level(0),
    ):  # fmt: skip
        assert same(back(value), value), value


def test_a_set_gives_the_same_text_in_any_order() -> None:
    upward, downward = set(range(0, 5000, 97)), set(range(4947, -1, -97))
    assert upward == downward
    assert codec.dumps(upward) == codec.dumps(downward)
    assert codec.dumps({"b", "a"}) == '{"$t":"set","v":["a","b"]}'


def test_text_is_written_as_itself_wherever_utf8_can() -> None:
    assert codec.dumps({"k": "日本 é"}) == '{"k":"日本 é"}'
    assert codec.dumps("\ud800") == '"\\ud800"'


class Unregistered(BaseModel):
    x: int = 1


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (lambda: 1, "value"),
        ({"a": [1, {"b": object()}]}, "value['a'][1]['b']"),
        ({(1, object()): 1}, "value key"),
        ([Unregistered()], "value[0]"),
        (Node(children=(Node(value=int),)), "value.children[0].value"),
        ((1, {frozenset({Ellipsis})}), "value[1]"),
    ],
)
def test_an_error_names_the_path(value: Any, path: str) -> None:
    with pytest.raises(SerializationError) as raised:
        codec.dumps(value)
    assert raised.value.path.startswith(path)
    assert path.split("[")[0] in str(raised.value)


def test_what_contains_itself_is_an_error_and_no_crash() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = [loop]
    for value in (loop, {"a": (loop,)}, Node(loop)):
        with pytest.raises(SerializationError, match="contains itself"):
            codec.dumps(value)


@pytest.mark.parametrize(
    "stored",
    [
        "{",
        "",
        '{"$t":"dict","v":[1]}',
        '{"$t":"date","v":"yesterday"}',
        '{"$t":"decimal","v":"x"}',
        '{"$t":"set","v":[[]]}',
        '{"$t":"date"}',
        '{"$t":"datetime","v":"2024-01-01","z":"No/Where","f":0}',
        '{"$t":"object","v":1}',
        "[" * 100_000,
    ],
)
def test_damaged_data_is_a_clear_error(stored: str) -> None:
    with pytest.raises(SerializationError):
        codec.loads(stored)


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "builtins.eval", "", "\x00"])
def test_stored_data_names_no_class_that_is_not_registered(name: str) -> None:
    for kind in ("object", "enum"):
        envelope = json.dumps({"$t": kind, "c": name, "v": {"args": ["x"]}})
        with pytest.raises(UnknownTypeError, match="not registered"):
            codec.loads(envelope)


def test_an_unknown_tag_is_from_a_newer_version() -> None:
    with pytest.raises(UnknownTypeError, match="'hologram'"):
        codec.loads('{"$t":"hologram","v":1}')


def test_a_member_that_was_removed_is_an_error() -> None:
    stored = codec.dumps(Color.RED).replace("RED", "GREEN")
    with pytest.raises(SerializationError):
        codec.loads(stored)


def test_only_what_can_be_stored_can_be_registered() -> None:
    for kind in (int, object, dict):
        with pytest.raises(TypeError, match="enums, dataclasses and pydantic models"):
            register_type(kind)


def test_a_registered_name_outlives_a_move() -> None:
    registry = TypeRegistry()

    @dataclasses.dataclass
    class Old:
        x: int = 1

    @dataclasses.dataclass
    class New:
        x: int = 2

    registry.add(Old, "shop.item")
    assert registry.name_of(Old) == "shop.item"
    registry.add(New, "shop.item")
    assert registry.type_named("shop.item") is New


def test_a_registered_name_counts_where_a_state_declares_the_type_as_well() -> None:
    @dataclasses.dataclass
    class Item:
        x: int = 1

    register_type(Item, name="stable.item")

    class Shop(AgentState):
        items: list[Item | int] = Field(default_factory=list)
        anything: Any = None

    written = StateCodec(Shop).dumps(Item())
    assert '"stable.item"' in written


def test_types_that_a_registered_type_declares_are_known_too() -> None:
    @dataclasses.dataclass
    class Leaf:
        x: int

    @dataclasses.dataclass
    class Tree:
        leaves: list[Leaf]
        best: Leaf | None = None

    register_type(Tree)
    assert back(Tree([Leaf(1)], Leaf(2))) == Tree([Leaf(1)], Leaf(2))


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Fish(BaseModel):
    kind: Literal["fish"] = "fish"


class Zoo(AgentState):
    pets: list[Cat | Fish] = Field(default_factory=list)
    tagged: list[Cat | Fish] = Field(default_factory=list, discriminator=None)
    maybe: Cat | None = None
    by_name: dict[str, Cat] = Field(default_factory=dict)
    colors: dict[Color, list[Color]] = Field(default_factory=dict)
    pair: tuple[int, Cat] | None = None
    either: int | str | bytes | None = None


def test_declared_unions_and_containers_come_back_as_their_members() -> None:
    zoo = Zoo(
        pets=[Cat(), Fish()],
        maybe=Cat(lives=1),
        by_name={"Tom": Cat(lives=2)},
        colors={Color.RED: [Color.TUPLE]},
        pair=(1, Cat()),
        either=b"\xff",
    )
    states = StateCodec(Zoo)
    stored = to_text(states.state_fields(zoo))
    assert states.state(states.decode_fields(stored), []) == zoo


def test_a_declared_type_is_not_written_down() -> None:
    states = StateCodec(Zoo)
    assert "Cat" not in to_text(states.state_fields(Zoo(maybe=Cat(), by_name={"Tom": Cat()})))
