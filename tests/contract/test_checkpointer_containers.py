"""Containers and moments come back with what `==` does not look at, or are refused."""

import dataclasses
import enum
import re
from array import array
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from datetime import datetime, time, timedelta, timezone
from fractions import Fraction
from ipaddress import IPv4Address
from types import MappingProxyType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from backends import Checkpointer
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, field_validator
from threads import config, present

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState


class Place(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class Pair:
    one: int


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


def _groups() -> defaultdict[str, list[int]]:
    return defaultdict(list)


class Rich(AgentState):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    recent: deque[int] = Field(default_factory=deque)
    queues: dict[str, deque[Place]] = Field(default_factory=dict)
    groups: defaultdict[str, list[int]] = Field(default_factory=_groups)
    nested: Counter[str] | deque[deque[int]] | None = None
    ordered: OrderedDict[str, int] = Field(default_factory=OrderedDict)
    counts: Counter[str] = Field(default_factory=Counter)
    place: Place = Place(0, 0)
    pair: Pair = Pair(0)
    access: Access = Access.READ
    number: complex = 0j
    share: Fraction = Fraction(0)
    address: IPv4Address | None = None
    pattern: re.Pattern[str] | None = None
    secret: SecretStr | None = None
    view: Any = None


KEPT: dict[str, dict[str, Any]] = {
    "bound": {"recent": deque([1, 2], maxlen=2)},
    "bound at two levels": {"nested": deque([deque([1], maxlen=1)], maxlen=4)},
    "no bound": {"recent": deque([1, 2])},
    "bound of a deque inside": {"queues": {"a": deque([Place(1, 2)], maxlen=3)}},
    "untyped deque": {"view": [deque([(1,)], maxlen=1)]},
    "factory": {"groups": defaultdict(list, {"a": [1]})},
    "order": {"ordered": OrderedDict(b=1, a=2)},
    "counter": {"counts": Counter("aab")},
    "named tuple": {"place": Place(1, 2)},
    "frozen dataclass": {"pair": Pair(2)},
    "flags together": {"access": Access.READ | Access.WRITE},
    "complex": {"number": 1 + 2j},
    "fraction": {"share": Fraction(1, 3)},
    "address": {"address": IPv4Address("10.0.0.1")},
    "pattern": {"pattern": re.compile("a+")},
}

REFUSED: dict[str, dict[str, Any]] = {
    "groups": {"groups": defaultdict(lambda: [1], {"a": [1]})},
    "pattern": {"pattern": re.compile("a+", re.IGNORECASE)},
    "secret": {"secret": SecretStr("x")},
    "view": {"view": ChainMap({"a": 1})},
    "view ": {"view": MappingProxyType({"a": 1})},
    "view  ": {"view": array("i", [1])},
    "view   ": {"view": range(3)},
    "view    ": {"view": defaultdict(list)},
}


def extras(value: Any) -> list[Any]:
    """What `==` does not look at."""
    if isinstance(value, dict):
        factory = getattr(value, "default_factory", None)
        return [type(value), factory, list(value), *map(extras, value.values())]
    if isinstance(value, list | tuple | deque):
        return [type(value), getattr(value, "maxlen", None), *map(extras, value)]
    return [type(value)]


@pytest.mark.parametrize("name", KEPT)
async def test_a_container_comes_back_whole(name: str, checkpointer: Checkpointer) -> None:
    checkpointer.bind_state_type(Rich)
    written = Rich.model_construct(**{**Rich().__dict__, **KEPT[name]})
    await checkpointer.aput_state(config(), written)
    read = present(await checkpointer.aget_state(config()))
    for field, value in KEPT[name].items():
        assert getattr(read, field) == value
        assert extras(getattr(read, field)) == extras(value)


@pytest.mark.parametrize("name", REFUSED)
async def test_what_would_come_back_changed_is_refused(
    name: str, checkpointer: Checkpointer
) -> None:
    written = Rich.model_construct(**{**Rich().__dict__, **REFUSED[name]})
    with pytest.raises(SerializationError, match=f"state.{name.strip()}"):
        await checkpointer.aput_state(config(), written)
    assert await checkpointer.aget_thread(config()) is None


MOMENTS: list[Any] = [
    datetime(2024, 10, 27, 2, 30, fold=1),
    time(2, 30, fold=1),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=1), "CET")),
    datetime(2024, 1, 2, fold=1, tzinfo=timezone(timedelta(hours=-3))),
    time(2, 30, tzinfo=timezone(timedelta(0), "Zulu")),
]


async def test_a_moment_keeps_its_fold_and_the_name_of_its_zone(checkpointer: Checkpointer) -> None:
    checkpointer.bind_state_type(Rich)
    await checkpointer.aput_state(config(), Rich(view=MOMENTS))
    read = present(await checkpointer.aget_state(config())).view
    assert read == MOMENTS
    assert [one.fold for one in read] == [one.fold for one in MOMENTS]
    assert [repr(one.tzinfo) for one in read] == [repr(one.tzinfo) for one in MOMENTS]


class Odd(AgentState):
    budget: int = 0
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)

    @field_validator("budget")
    @classmethod
    def double(cls, value: int) -> int:
        return 2 * value


async def test_private_attributes_and_validators_are_as_the_documents_say(
    checkpointer: Checkpointer,
) -> None:
    checkpointer.bind_state_type(Odd)
    written = Odd(budget=4)
    written._cache["a"] = 1
    await checkpointer.aput_state(config(), written)
    read = present(await checkpointer.aget_state(config()))
    assert read._cache == {}
    assert (written.budget, read.budget) == (8, 16)
