"""Signatures of tools and nodes: reserved names, and the ways to say a tool's name."""

import enum
from collections.abc import Callable, Mapping, MutableMapping
from decimal import Decimal
from typing import Any, Literal, NewType, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import StateGraph, tool
from tenxgraph.core.graph.tools import Tool
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import BaseCheckpointer, InMemoryCheckpointer
from tenxgraph.storage.store import BaseStore


class Ticket(AgentState):
    urgent: bool = False


class Address(BaseModel):
    state: str


class Colour(enum.StrEnum):
    RED = "red"


class Options(TypedDict):
    thread_id: str


class OwnStore:
    """Whatever a caller gives to `compile(store=)`."""


Key = NewType("Key", str)


def taking(name: str, annotation: Any) -> Callable[..., Any]:
    """A function with one parameter."""

    namespace: dict[str, Any] = {"annotation": annotation}
    exec(f"def function({name}: annotation): 'Do nothing.'", namespace)
    made: Callable[..., Any] = namespace["function"]
    return made


WRONG = [
    ("state", str),
    ("state", Literal["TX", "CA"]),
    ("state", str | None),
    ("state", Address),
    ("state", Colour),
    ("state", list[str]),
    ("config", int),
    ("config", "str"),
    ("config", Address),
    ("store", str),
    ("store", list[int]),
    ("store", dict[str, str]),
    ("checkpointer", bool),
    ("emit", bool),
    ("emit", Decimal),
]
WRONG_FOR_TOOLS = [*WRONG, ("tool_call_id", int), ("idempotency_key", UUID), ("tool_call_id", dict)]
RIGHT = [
    ("state", AgentState),
    ("state", Ticket),
    ("state", Ticket | None),
    ("state", dict),
    ("state", Mapping[str, Any]),
    ("state", Any),
    ("state", object),
    ("state", "a name that is not there"),
    ("state", BaseModel),
    ("config", dict[str, Any]),
    ("config", Mapping[str, Any]),
    ("config", MutableMapping[str, Any]),
    ("config", Options),
    ("store", BaseStore),
    ("store", BaseStore | None),
    ("store", OwnStore),
    ("checkpointer", BaseCheckpointer[Any]),
    ("checkpointer", InMemoryCheckpointer),
    ("emit", Callable[[Any], None]),
    ("emit", "Callable[[Any], None]"),
]
RIGHT_FOR_TOOLS = [
    *RIGHT,
    ("tool_call_id", str),
    ("tool_call_id", str | None),
    ("idempotency_key", Key),
]


@pytest.mark.parametrize(("name", "annotation"), WRONG_FOR_TOOLS)
def test_a_tools_parameter_with_a_reserved_name_and_another_type_is_refused(
    name: str, annotation: Any
) -> None:
    with pytest.raises(GraphError, match=rf"Tool 'look' has a parameter `{name}: .*Rename"):
        Tool(taking(name, annotation), name="look")


@pytest.mark.parametrize(("name", "annotation"), RIGHT_FOR_TOOLS)
def test_a_tools_parameter_that_can_be_passed_is_accepted(name: str, annotation: Any) -> None:
    made = Tool(taking(name, annotation), name="look")
    assert made.schema["function"]["parameters"]["properties"] == {}


@pytest.mark.parametrize(("name", "annotation"), WRONG)
def test_a_nodes_parameter_with_a_reserved_name_and_another_type_is_refused(
    name: str, annotation: Any
) -> None:
    with pytest.raises(GraphError, match=rf"Node 'look' has a parameter `{name}: .*Rename"):
        StateGraph().add_node("look", taking(name, annotation))


@pytest.mark.parametrize(("name", "annotation"), RIGHT)
def test_a_nodes_parameter_that_can_be_passed_is_accepted(name: str, annotation: Any) -> None:
    StateGraph().add_node("look", taking(name, annotation))


def test_a_tools_name_may_stand_first() -> None:
    @tool("lookup")
    def first(word: str) -> str:
        return word

    @tool("lookup", description="Look.", on_unknown="ask")
    def second(word: str) -> str:
        return word

    def third(word: str) -> str:
        return word

    assert [first.name, second.name] == ["lookup", "lookup"]
    assert (second.description, second.on_unknown) == ("Look.", "ask")
    assert tool(third, name="lookup").name == "lookup"
    assert tool(name="lookup")(third).name == "lookup"
    assert tool(third).name == tool()(third).name == "third"
    assert type(tool(Colour.RED)(third).name) is str


@pytest.mark.parametrize("name", ["", "no name", "x" * 65])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(GraphError, match="is no name for a tool"):
        tool(name)(lambda: None)
    with pytest.raises(GraphError, match="is no name for a tool"):
        tool(name=name)(lambda: None)


def test_two_names_are_refused() -> None:
    two: Any = tool
    with pytest.raises(GraphError, match="two names, 'a' and 'b'"):
        two("a", name="b")
