"""Names of nodes that are more than text: taken as their text, wherever a name is taken."""

import enum
from collections.abc import Callable
from typing import Any

import pytest
from backends import Backend
from graphs import config, on_durable

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import END, Command, StateGraph
from tenxgraph.core.graph.edges import START

pytestmark = on_durable


class Step(enum.StrEnum):
    FIRST = "first"
    SECOND = "second"
    END = "__end__"
    START = "__start__"


class Old(str, enum.Enum):  # noqa: UP042 - what programs had before StrEnum
    FIRST = "first"
    SECOND = "second"
    END = "__end__"
    START = "__start__"


class Plain(enum.Enum):
    FIRST = "first"
    SECOND = "second"
    END = "__end__"
    START = "__start__"


class Name(str):
    """A text of a framework's own."""


class Names:
    FIRST, SECOND = Name("first"), Name("second")
    END, START = Name("__end__"), Name("__start__")


Build = Callable[[Any, StateGraph[Any]], Any]


def by_edges(names: Any, graph: StateGraph[Any]) -> Any:
    graph.add_edge(names.START, names.FIRST)
    graph.add_edge(names.FIRST, names.SECOND)
    graph.add_edge(names.SECOND, names.END)


def by_condition(names: Any, graph: StateGraph[Any]) -> Any:
    graph.set_entry_point(names.FIRST)
    graph.add_conditional_edges(names.FIRST, lambda state: names.SECOND)
    graph.add_conditional_edges(names.SECOND, lambda state: names.END)


def by_condition_at_the_start(names: Any, graph: StateGraph[Any]) -> Any:
    graph.add_conditional_edges(names.START, lambda state: names.FIRST)
    graph.add_edge("first", "second")


def by_path_map(names: Any, graph: StateGraph[Any]) -> Any:
    graph.set_entry_point(names.FIRST)
    graph.add_conditional_edges("first", lambda state: True, {True: names.SECOND, False: names.END})
    graph.add_conditional_edges("second", lambda state: names.END, {names.END: names.END})


def by_path_list(names: Any, graph: StateGraph[Any]) -> Any:
    graph.set_entry_point(names.FIRST)
    graph.add_conditional_edges(names.FIRST, lambda state: "second", [names.SECOND, names.END])
    graph.add_conditional_edges("second", lambda state: names.END, ["first", END])


@pytest.mark.parametrize("names", [Step, Old, Plain, Names])
@pytest.mark.parametrize(
    "build", [by_edges, by_condition, by_condition_at_the_start, by_path_map, by_path_list]
)
async def test_each_node_runs_once(backend: Backend, names: Any, build: Build) -> None:
    ran: list[str] = []
    graph = StateGraph()
    graph.add_node(names.FIRST, lambda: ran.append("first"))
    graph.add_node(names.SECOND, lambda: ran.append("second"))
    build(names, graph)
    app = graph.compile(backend.make())
    result = await app.ainvoke("go", config())
    assert ran == ["first", "second"]
    assert result["state"].execution_meta.status == "completed"
    stored = await app.aget_state(config())
    assert stored is not None
    assert type(stored.execution_meta.current_node) is str
    assert "first[first]" in app.draw()


@pytest.mark.parametrize("names", [Step, Old, Plain, Names])
async def test_a_command_and_the_pauses_at_nodes_take_names_as_text(
    backend: Backend, names: Any
) -> None:
    ran: list[str] = []

    def first() -> Command:
        ran.append("first")
        return Command(goto=names.SECOND)

    def second() -> Command:
        ran.append("second")
        return Command(goto=names.END)

    graph = StateGraph().add_node(names.FIRST, first).add_node(names.SECOND, second)
    app = graph.set_entry_point(names.FIRST).compile(
        backend.make(), interrupt_before=[names.FIRST], interrupt_after=[names.FIRST]
    )
    await app.ainvoke("go", config())
    for _ in range(2):
        (await app.ainvoke({"resume": None}, config()))
    assert ran == ["first", "second"]


class Number(enum.Enum):
    ONE = 1


async def test_what_is_no_text_is_refused_before_anything_runs(backend: Backend) -> None:
    graph: StateGraph[Any] = StateGraph()
    with pytest.raises(GraphError, match="cannot be the name of a node"):
        graph.add_node(Number.ONE, lambda: None)  # type: ignore[arg-type]
    graph.add_node("first", lambda: None).add_edge(START, Number.ONE)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="no such node"):
        graph.compile(backend.make())


@pytest.mark.parametrize("names", [Step, Old, Plain, Names], ids=lambda one: one.__name__)
async def test_one_name_alone_is_a_name_and_not_its_letters(names: Any, backend: Backend) -> None:
    graph = StateGraph().add_node("first", lambda: "1").set_entry_point("first")
    app = graph.compile(backend.make(), interrupt_before=names.FIRST)
    assert (await app.ainvoke("go", config()))["interrupts"]
