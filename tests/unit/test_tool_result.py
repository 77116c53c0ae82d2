"""What a tool returns, as JSON values: every value has a form, and the codec takes it."""

import dataclasses
import enum
import itertools
import json
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, model_serializer

from tenxgraph.core.graph.tool_result import error_text, to_result
from tenxgraph.core.state import ImageBlock, Message
from tenxgraph.core.state.codec import Codec


class Colour(enum.StrEnum):
    RED = "red"


class Rank(enum.IntEnum):
    FIRST = 1


class Plain(enum.Enum):
    ONE = (1, "one")


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Name(str):
    __slots__ = ()


class Share(float):
    pass


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.float64(0.87), 0.87),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(5), 5),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        ({"score": [np.float64(0.5), np.array([1.5])]}, {"score": [0.5, [1.5]]}),
        (Colour.RED, "red"),
        (Rank.FIRST, 1),
        (Plain.ONE, [1, "one"]),
        (Access.READ | Access.WRITE, 3),
        (Name("Ada"), "Ada"),
        (Share(0.5), 0.5),
        (True, True),
        (
            {Colour.RED: 1, Rank.FIRST: 2, None: 3, (1, 2): 4},
            {"red": 1, "1": 2, "None": 3, "1,2": 4},
        ),
        ({np.int64(4): "x", Name("k"): "y"}, {"4": "x", "k": "y"}),
        (Pair(np.float64(1), Colour.RED), {"left": 1.0, "right": "red"}),
        ([date(2026, 1, 2), Decimal("1.5")], ["2026-01-02", "1.5"]),
        ({"$t": "mine"}, {"$t": "mine"}),
        ("\ud800\x00", "\ud800\x00"),
        (b"\x00\x01", "AAE="),
    ],
)
def test_a_value_becomes_plain_json(value: Any, told: Any) -> None:
    result = to_result(value)
    assert (result, type(result)) == (told, type(told))
    assert Codec().loads(Codec().dumps(result)) == told


class Refusing:
    """Raises whatever it is asked."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __repr__(self) -> str:
        raise self._error

    __str__ = __repr__

    def __iter__(self) -> Iterator[Any]:
        raise self._error

    def __getattr__(self, name: str) -> Any:
        raise self._error


class Broken(BaseModel):
    amount: int = 5

    @model_serializer
    def to_nothing(self) -> Any:
        raise MemoryError


class Error(Exception):
    def __str__(self) -> str:
        raise RecursionError


REFUSED = "A value of type Refusing, which cannot be told."


@pytest.mark.parametrize(
    "error", [OSError(), RecursionError(), MemoryError(), KeyboardInterrupt(), SystemExit()]
)
def test_a_value_that_raises_when_it_is_looked_at_is_named_by_its_type(
    error: BaseException,
) -> None:
    assert to_result(Refusing(error)) == REFUSED
    told = to_result({"seats": [1, Refusing(error)], Refusing(error): 2})
    assert told == {"seats": [1, REFUSED], REFUSED: 2}


def test_a_model_whose_serializer_fails_is_told_in_its_own_words() -> None:
    assert to_result([Broken()]) == ["amount=5"]


def test_an_error_without_words_is_named_by_its_type() -> None:
    assert error_text(Error()) == "A value of type Error, which cannot be told."
    assert error_text(OSError("no money")) == "no money"


@pytest.mark.parametrize("kind", [list, dict])
def test_a_value_that_is_nested_too_deeply_is_told_as_far_as_possible(kind: type) -> None:
    deep: Any = "end"
    for _ in range(5_000):
        deep = [deep] if kind is list else {"a": deep}
    text = Codec().dumps(to_result(deep))
    assert text.startswith("[[[[" if kind is list else '{"a":{"a":{"a":')
    assert Codec().loads(text) == to_result(deep)


def test_a_value_that_contains_itself_is_told_once() -> None:
    value: dict[str, Any] = {"name": "Ada"}
    value["self"] = [value, value]
    assert to_result(value) == {"name": "Ada", "self": ["...", "..."]}


@pytest.mark.parametrize("factor", [1, -1])
@pytest.mark.parametrize("digits", [5000, 1000])
def test_a_huge_integer_is_told_as_text_that_any_process_can_send(digits: int, factor: int) -> None:
    value = factor * 10**digits
    told = to_result({"n": [value]})["n"][0]
    json.dumps(told)
    limit = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)
        assert int(told, 0) == value
    finally:
        sys.set_int_max_str_digits(limit)


def test_an_integer_that_json_can_hold_stays_a_number() -> None:
    assert to_result([10**600, -1, 0]) == [10**600, -1, 0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_has_not_are_kept(value: float) -> None:
    assert repr(Codec().loads(Codec().dumps(to_result([value])))) == repr([value])


class Twice:
    """An array whose list holds two of its own kind."""

    def tolist(self) -> list[Any]:
        return [Twice(), Twice()]


def doubled(times: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(times):
        value = [value, value]
    return value


@dataclasses.dataclass
class Rows:
    rows: Any


@pytest.mark.parametrize(
    "value",
    [
        itertools.count(),
        {"rows": itertools.count()},
        Rows(itertools.count()),
        map(str, itertools.count()),
        [itertools.repeat(1) for _ in range(100)],
        doubled(40),
        Twice(),
    ],
    ids=["count", "in a dict", "in a dataclass", "map", "many", "doubled", "twice"],
)
def test_an_endless_result_is_told_up_to_a_bound(value: Any) -> None:
    assert len(json.dumps(to_result(value))) < 3_000_000


def test_an_iterator_that_raises_is_told_with_its_error() -> None:
    def rows() -> Iterator[int]:
        yield 1
        raise ValueError("the file ended")

    assert to_result({"rows": rows()}) == {"rows": [1, "ValueError: the file ended"]}


def test_an_object_that_says_it_is_a_message_is_told_as_what_it_is() -> None:
    class Lies:
        __class__ = Message  # type: ignore[assignment]  # what it is not

        def text(self) -> Any:
            return self

    assert isinstance(to_result(Lies()), str)


def test_an_image_that_was_made_without_a_check_is_told_in_words() -> None:
    unchecked: Any = ImageBlock
    odd = unchecked.model_construct(type="image", data="no bytes")
    for result in (odd, [odd], Message.model_construct(role="tool", content=(odd,))):
        json.dumps(to_result(result))
    good = ImageBlock(data=b"png", media_type="image/png")
    assert to_result(good) == [good]
