"""What a model is told of a function, and what the function is given of the model's arguments."""

import functools
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from tenxgraph.core.exceptions import GraphError, ToolError
from tenxgraph.core.graph import ToolNode, tool
from tenxgraph.core.graph.tools import Tool
from tenxgraph.core.state import ToolCall
from tenxgraph.prebuilt.tools import memory_tool


class Place(BaseModel):
    city: str
    country: str = "DK"


def schema(function: Any) -> dict[str, Any]:
    told: dict[str, Any] = Tool(function).schema["function"]
    return told


def test_a_signature_and_its_docstring_become_a_schema() -> None:
    def weather(
        place: Place,
        days: int = 3,
        unit: Literal["C", "F"] = "C",
        note: Annotated[str | None, Field(max_length=10)] = None,
    ) -> str:
        """Tell the weather.

        For a few days.

        Args:
            place: Where it is
                to be told.
            days (int): How many: at most 10.
            unit: Celsius
              or Fahrenheit.

        Returns:
            A text.
        """
        return ""

    told = schema(weather)
    assert told["name"] == "weather"
    assert told["description"] == "Tell the weather.\n\nFor a few days."
    parameters = told["parameters"]
    assert parameters["type"] == "object"
    assert parameters["required"] == ["place"]
    assert parameters["additionalProperties"] is False
    assert list(parameters["properties"]) == ["place", "days", "unit", "note"]
    assert parameters["properties"]["days"] == {
        "type": "integer",
        "default": 3,
        "description": "How many: at most 10.",
    }
    assert parameters["properties"]["unit"]["enum"] == ["C", "F"]
    assert parameters["properties"]["unit"]["description"] == "Celsius or Fahrenheit."
    assert parameters["properties"]["place"]["description"] == "Where it is to be told."
    assert parameters["$defs"]["Place"]["required"] == ["city"]


def test_injected_parameters_are_never_told() -> None:
    def pay(  # type: ignore[no-untyped-def]
        amount: float,
        state,
        config: "Nowhere",  # type: ignore[name-defined]  # noqa: F821
        store: object,
        checkpointer,
        tool_call_id: str,
        idempotency_key: str,
        emit,
    ) -> None: ...

    assert list(schema(pay)["parameters"]["properties"]) == ["amount"]
    shown = schema(memory_tool)["parameters"]["properties"]
    assert "config" not in shown
    assert shown["action"]["default"] == "search"
    assert shown["memory_key"]["description"].startswith("Short snake_case name")


def test_other_styles_and_kinds_of_functions_are_described() -> None:
    def by_fields(a: int, b: int) -> int:
        """Add.

        :param a: The first.
        :param int b: The second.
        :returns: The sum.
        """
        return a + b

    told = schema(by_fields)
    assert told["description"] == "Add."
    properties = told["parameters"]["properties"]
    assert [properties[name]["description"] for name in "ab"] == ["The first.", "The second."]

    class Adder:
        """Adds, as an object."""

        def __call__(self, a: int, b: int = 1) -> int:
            return a + b

        def method(self, a: int) -> int:
            """Add in a method."""
            return a

    assert schema(Adder())["name"] == "Adder"
    assert schema(Adder())["description"] == "Adds, as an object."
    assert schema(Adder().method)["description"] == "Add in a method."
    assert list(schema(functools.partial(by_fields, b=2))["parameters"]["properties"]) == ["a", "b"]
    assert schema(lambda_like := _undocumented)["description"] == ""
    assert lambda_like()["x"] == 1


def _undocumented(**anything: Any) -> dict[str, Any]:
    return {"x": 1, **anything}


def test_the_decorator_says_more() -> None:
    @tool(name="pay_now", description="Pay.", on_unknown="ask")
    def pay(amount: int) -> int:
        """Not told."""
        return amount

    @tool
    def plain() -> str:
        """Told."""
        return "x"

    assert (schema(pay)["name"], schema(pay)["description"], pay.on_unknown) == (
        "pay_now",
        "Pay.",
        "ask",
    )
    assert schema(plain)["description"] == "Told."
    assert pay(3) == 3, "it can still be called"


def arguments(function: Any, args: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(args, str):
        call = ToolCall.from_arguments(id="1", name="t", arguments=args)
    else:
        call = ToolCall(id="1", name="t", args=args)
    return Tool(function).arguments(call)


@dataclass
class Point:
    x: int
    y: int = 0


def test_arguments_come_as_the_types_that_are_declared() -> None:
    def function(place: Place, points: list[Point], n: int = 1, json: str = "") -> None: ...

    got = arguments(
        function, {"place": {"city": "Aarhus"}, "points": [{"x": 1}], "n": "7", "json": "j"}
    )
    assert got == {"place": Place(city="Aarhus"), "points": [Point(1)], "n": 7, "json": "j"}
    assert arguments(function, {"place": Place(city="x"), "points": []}).keys() == {
        "place",
        "points",
    }
    assert arguments(_undocumented, {"whatever": [1]}) == {"whatever": [1]}
    assert arguments(lambda_free, "") == {}
    assert arguments(lambda_free, "{}") == {}
    assert arguments(lambda_free, "{ }") == {}


def lambda_free() -> None: ...


def test_null_stands_for_what_is_left_out() -> None:
    def function(
        n: int | None, text: str = "x", limit: int | str = 5, key: str | None = "k"
    ) -> None: ...

    given = {"n": None, "text": None, "limit": None, "key": None}
    assert arguments(function, given) == {"n": None, "key": None}
    with pytest.raises(ToolError, match="limit") as refused:
        arguments(function, {"n": "many", "text": None, "limit": [1]})
    assert "text" not in str(refused.value), "nothing but what is really wrong"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"n": "many"}, "n: Input should be a valid integer"),
        ({}, "n: Field required"),
        ({"n": 1, "state": 3}, "state: Extra inputs are not permitted"),
        ("{not json", "no JSON object: '{not json'"),
        ("[1]", "no JSON object"),
        ('{"n":' * 600 + "1" + "}" * 600, "no JSON object"),
    ],
)
def test_arguments_that_do_not_fit_are_told_in_words_for_the_model(args: Any, told: str) -> None:
    def function(n: int, state: Any) -> None: ...

    with pytest.raises(ToolError) as refused:
        arguments(function, args)
    assert told in str(refused.value)


def test_tools_that_cannot_be_told_are_refused_when_they_are_made() -> None:
    class Connection: ...

    def wants_object(connection: Connection) -> None: ...

    def wants_position(a: int, /) -> None: ...

    with pytest.raises(GraphError, match=r"'wants_object' cannot be told.*Connection"):
        Tool(wants_object)

    def wants_the_unknown(place: "Elsewhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(GraphError, match="types of tool 'wants_the_unknown' cannot be looked up"):
        Tool(wants_the_unknown)
    with pytest.raises(GraphError, match="by position only"):
        Tool(wants_position)
    with pytest.raises(GraphError, match="no name for a tool"):
        Tool(lambda: None)
    with pytest.raises(GraphError, match="function or an object"):
        Tool(Connection)
    with pytest.raises(GraphError, match="`on_unknown` must be"):
        Tool(lambda_free, on_unknown="never")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="a tool 'lambda_free' already"):
        ToolNode([lambda_free, lambda_free])
