"""Output schemas: what servers are sent, and how the answers are read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, create_model
from strict_rules import broken_strict_rules

from tenxgraph.core.exceptions import GraphError, RefusalError
from tenxgraph.core.graph.output import OutputSchema
from tenxgraph.core.state import Message


class Inner(BaseModel):
    number: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Described(BaseModel):
    inner: Inner = Field(description="What is inside.")
    other: Inner = Field(default=Inner(number=1), description="Another.", examples=[1])


class Node(BaseModel):
    value: int
    next: "Node | None" = Field(default=None, description="The next one.")


class Tree(BaseModel):
    parent: "Tree" = Field(description="Above.")
    children: list["Tree"] = []


class Pet(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Limits(BaseModel):
    name: str = Field(min_length=1, max_length=9, pattern="^a")
    count: int = Field(ge=0, lt=9, multiple_of=3)
    price: Decimal
    day: date
    span: timedelta
    site: AnyUrl
    path: Path
    key: UUID
    raw: bytes
    tags: set[str]
    few: list[int] = Field(min_length=1, max_length=3)


class Mixed(BaseModel):
    one: Literal["a", 1, None]
    color: Color
    nothing: None = None
    flag: Literal[True] = True


class Pair(NamedTuple):
    x: int
    y: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class Holds(BaseModel):
    value: Any
    call: dict[str, int] = {}


class Empty(BaseModel):
    pass


class Tuples(BaseModel):
    pair: tuple[int, str]
    named: Pair


@dataclass
class Plain:
    number: int
    inner: Inner


STRICT: list[Any] = [
    Inner,
    Described,
    Node,
    Tree,
    Pet,
    Limits,
    Mixed,
    Plain,
    list[int],
    list[Inner],
    Cat | Dog,
    Annotated[Cat | Dog, Field(discriminator="kind")],
    Color,
    Literal["yes", "no"],
    int,
    Inner | None,
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x", "description": "An x."}},
     "$defs": {"x": {"type": "object", "properties": {"b": {"type": "string"}}}}},
    {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
    {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}},
    {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}},
    {"type": "object", "properties": {"if": {"type": "string"}, "$ref": {"type": "string"}}},
    {"$schema": "x", "type": "object", "properties": {"a": {"type": ["string", "null"]}}},
]  # fmt: skip

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
LOOSE: list[Any] = [
    dict[str, int],
    Open,
    Holds,
    Empty,
    Tuples,
    tuple[int, str],
    list[Any],
    OBJECT | {"properties": {"a": True}},
    OBJECT | {"properties": {"a": {}}},
    OBJECT | {"properties": {"a": {"type": "array"}}},
    OBJECT | {"properties": {"a": {"type": "object"}}},
    OBJECT | {"patternProperties": {"^x": {"type": "string"}}},
    OBJECT | {"allOf": [OBJECT, OBJECT]},
    OBJECT | {"anyOf": [OBJECT, OBJECT]},
    OBJECT | {"not": {"type": "null"}},
    OBJECT | {"if": OBJECT, "then": OBJECT},
    OBJECT | {"properties": {"a": {"enum": [{"x": 1}]}}},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"type": "string"}},
    },
]


def sent(schema: Any) -> dict[str, Any]:
    """What a server is told of a schema."""
    told: dict[str, Any] = OutputSchema(schema).response_format["json_schema"]
    return told


@pytest.mark.parametrize("schema", STRICT, ids=repr)
def test_what_is_declared_strict_breaks_no_rule(schema: Any) -> None:
    told = sent(schema)
    assert told["strict"] is True
    assert broken_strict_rules(told["schema"]) == []


@pytest.mark.parametrize("schema", LOOSE, ids=repr)
def test_what_has_no_strict_form_is_not_declared_strict(schema: Any) -> None:
    told = sent(schema)
    assert told["strict"] is False
    assert told["schema"]["type"] == "object", "servers take no other root"


def test_rules_are_not_satisfied_by_what_pydantic_writes() -> None:
    models: list[type[BaseModel]] = [Described, Node, Pet, Limits, Tuples]
    assert all(broken_strict_rules(one.model_json_schema()) for one in models)


SCALARS: list[Any] = [
    int,
    str,
    bool,
    float,
    date,
    Decimal,
    Color,
    None,
    Literal["a", 1],
    Inner,
    Cat,
]


def types() -> st.SearchStrategy[Any]:
    def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            inner.map(lambda one: list[one]),  # type: ignore[valid-type]
            inner.map(lambda one: one | None if one is not None else None),
            inner.map(lambda one: Annotated[one, Field(description="Told.")]),
            inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]
            inner.map(lambda one: tuple[one, int]),  # type: ignore[valid-type]
            st.dictionaries(st.sampled_from(["a", "not", "items"]), inner, min_size=1).map(made),
        )

    return st.recursive(st.sampled_from(SCALARS), containers, max_leaves=6)


def made(fields: dict[str, Any]) -> Any:
    definitions: dict[str, Any] = {name: (kind, Field(title="T")) for name, kind in fields.items()}
    return create_model("Made", **definitions)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(types())
def test_any_model_is_acceptable_or_not_declared_strict(schema: Any) -> None:
    told = sent(schema)
    assert told["schema"]["type"] == "object"
    assert not told["strict"] or broken_strict_rules(told["schema"]) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (list[int], [1, 2]),
        (Cat | Dog, {"kind": "dog", "name": "Rex"}),
        (Literal["yes", "no"], "yes"),
        (int, 5),
        (Inner | None, None),
        (tuple[int, str], [1, "a"]),
        ({"type": "array", "items": {"type": "string"}}, ["é"]),
    ],
    ids=repr,
)
def test_answer_is_taken_out_of_the_object_that_was_asked_for(schema: Any, value: Any) -> None:
    output = OutputSchema(schema)
    wrapped = Message.assistant(json.dumps({"answer": value}))
    read = output.read(wrapped)
    assert json.loads(read.text()) == value
    assert read.message_id == wrapped.message_id
    bare = Message.assistant(json.dumps(value))
    assert output.read(bare) is bare, "a server that ignores the format says it bare"


def test_object_with_one_key_named_answer_is_left_alone() -> None:
    class Same(BaseModel):
        answer: int

    message = Message.assistant('{"answer": 1}')
    assert OutputSchema(Same).read(message) is message


def test_limits_without_a_form_are_told_in_the_description() -> None:
    properties = sent(Limits)["schema"]["properties"]
    assert properties["name"]["description"] == "(minLength: 1, maxLength: 9)"
    assert properties["site"]["description"] == "(minLength: 1, format: uri)"
    assert properties["tags"]["description"] == "(uniqueItems: True)"
    assert properties["count"]["minimum"] == 0


def test_descriptions_beside_references_are_kept() -> None:
    properties = sent(Described)["schema"]["properties"]
    assert properties["inner"]["description"] == "What is inside."
    assert properties["other"]["properties"] == {"number": {"title": "Number", "type": "integer"}}


def test_refusal_is_a_refusal() -> None:
    raw = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    with pytest.raises(RefusalError, match=r"refused to answer: I cannot help with that\.") as e:
        OutputSchema(Inner).read(Message.from_openai(raw))
    assert e.value.refusal == "I cannot help with that."


@pytest.mark.parametrize("text", ["", "three", '{"number": ', "```json\n{}\n```"])
@pytest.mark.parametrize("schema", [Inner, {"type": "object"}, list[int]], ids=repr)
def test_answer_that_is_no_json_is_refused(schema: Any, text: str) -> None:
    with pytest.raises(GraphError, match=r"The model's answer is no .*JSON"):
        OutputSchema(schema).read(Message.assistant(text))


def test_field_without_a_schema_is_named() -> None:
    class Deep(BaseModel):
        call: Callable[[], int]

    class Outer(BaseModel):
        fine: int
        deep: Deep

    @dataclass
    class Data:
        call: Callable[[], int]

    for schema, field in ((Deep, "call"), (Outer, r"deep\.call"), (Data, "call")):
        with pytest.raises(
            GraphError, match=f"The field `{field}` of `output_schema` cannot be told"
        ):
            OutputSchema(schema)


@pytest.mark.parametrize("ref", ["#/$defs/none", "other.json", "#/properties/a/enum"])
def test_reference_that_names_nothing_is_refused(ref: str) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"$ref": ref}}}
    with pytest.raises(GraphError, match="has the reference"):
        OutputSchema(schema)
