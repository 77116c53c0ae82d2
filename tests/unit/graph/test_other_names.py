"""What other libraries call things: the error says what they are called here."""

import copy
import importlib
from collections.abc import Callable
from typing import Any

import pytest
from graphs import chain

import tenxgraph
from tenxgraph import Agent, Command, ReactAgent, StateGraph
from tenxgraph._other_names import ATTRIBUTES, IMPORTS
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.storage.checkpointer import BaseCheckpointer, InMemoryCheckpointer
from tenxgraph.testing import ScriptedModel


def echo(state: Any) -> str:
    return "yes"


def app() -> Any:
    return chain(echo, checkpointer=InMemoryCheckpointer())


def keeper() -> Any:
    return InMemoryCheckpointer()


def typed(value: Any) -> Any:
    """Return the value for a use that a type checker would refuse."""
    return value


CONFIG = {"thread_id": "t", "user_id": "u"}
CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "update_state": (lambda: app().update_state(CONFIG, {}), AttributeError, "put_state"),
    "aupdate_state": (lambda: app().aupdate_state(CONFIG, {}), AttributeError, "put_state"),
    "history": (lambda: app().get_state_history(CONFIG), AttributeError, r"list_states\(config\)"),
    "graph": (lambda: app().get_graph(), AttributeError, r"app\.draw\(\)"),
    "with_config": (lambda: app().with_config({}), AttributeError, "config to each call"),
    "events": (lambda: app().astream_events("hi"), AttributeError, r"app\.stream"),
    "list": (lambda: keeper().list(CONFIG), AttributeError, "list_states"),
    "alist": (lambda: keeper().alist(CONFIG), AttributeError, "list_states"),
    "put": (lambda: keeper().put(CONFIG, None), AttributeError, "put_state"),
    "get_tuple": (lambda: keeper().get_tuple(CONFIG), AttributeError, r"get_state\(config\)"),
    "delete": (lambda: keeper().adelete_thread("t"), AttributeError, "clean_thread"),
    "not compiled": (lambda: typed(StateGraph()).invoke("hi"), AttributeError, r"`compile\(\)` "),
    "agent not compiled": (
        lambda: typed(ReactAgent(ScriptedModel([]))).ainvoke("hi"),
        AttributeError,
        r"`compile\(\)` first",
    ),
    "resume": (lambda: typed(Command)(resume="yes"), TypeError, r'\{"resume": answer\}'),
    "resume with goto": (lambda: typed(Command)(goto="a", resume="yes"), TypeError, "resume"),
    "stream_mode": (
        lambda: list(app().stream("hi", CONFIG, stream_mode="values")),
        TypeError,
        "chunks have a `type`",
    ),
    "stream_mode of invoke": (
        lambda: app().invoke("hi", CONFIG, stream_mode="values"),
        TypeError,
        "chunks have a `type`",
    ),
    "thread_id": (lambda: app().invoke("hi", thread_id="1"), TypeError, '{"thread_id": "1"}'),
    "prompt": (lambda: ReactAgent("gpt-4o-mini", prompt="Be brief."), TypeError, "system_prompt"),
    "checkpointer of an agent": (
        lambda: Agent(ScriptedModel([]), checkpointer=keeper()),
        TypeError,
        r"agent\.compile\(checkpointer=",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_says_what_it_is_called_here(name: str) -> None:
    call, kind, remedy = CALLS[name]
    with pytest.raises(kind, match=remedy):
        call()


@pytest.mark.parametrize("name", IMPORTS)
@pytest.mark.parametrize(
    "module",
    [
        "tenxgraph",
        "tenxgraph.core.graph",
        "tenxgraph.core.state",
        "tenxgraph.prebuilt.agent",
        "tenxgraph.storage.checkpointer",
    ],
)
def test_an_import_of_another_librarys_name_says_what_to_import(module: str, name: str) -> None:
    if hasattr_without_remedy(module, name):
        return
    with pytest.raises(ImportError, match="Here it is"):
        exec(f"from {module} import {name}")


def hasattr_without_remedy(module: str, name: str) -> bool:
    return name in vars(importlib.import_module(module))


async def test_the_async_calls_explain_their_keywords_as_well() -> None:
    with pytest.raises(TypeError, match="chunks have a `type`"):
        await app().ainvoke("hi", CONFIG, stream_mode="values")
    with pytest.raises(TypeError, match="passed to `compile`"):
        async for _ in app().astream("hi", CONFIG, interrupt_before=["a"]):
            pass


async def test_nothing_has_run_where_a_keyword_is_refused() -> None:
    graph = app()
    with pytest.raises(TypeError):
        await graph.ainvoke("hi", CONFIG, stream_mode="values")
    assert await graph.aget_state(CONFIG) is None


def test_a_name_that_nobody_has_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'invoek'$"):
        app().invoek("hi")
    with pytest.raises(TypeError, match=r"ainvoke\(\) got an unexpected keyword argument 'mode'$"):
        app().invoke("hi", mode="x")
    with pytest.raises(TypeError, match=r"keyword argument 'to'$"):
        typed(Command)(to="x")
    with pytest.raises(ImportError, match="cannot import name 'StateGrahp'"):
        exec("from tenxgraph.core.graph import StateGrahp")
    assert not hasattr(tenxgraph, "nothing")
    assert not hasattr(app(), "update_state")


def test_no_table_names_what_is_there() -> None:
    classes = (CompiledGraph, StateGraph, ReactAgent, BaseCheckpointer)
    assert {one.__name__ for one in classes} == set(ATTRIBUTES)
    for one in classes:
        for name in ATTRIBUTES[one.__name__]:
            assert not hasattr(one, name), (one, name)
            assert not hasattr(one, f"a{name}"), (one, name)


def test_commands_are_copied_and_compared_as_before() -> None:
    command = Command(update="hi", goto="a")
    assert copy.deepcopy(command) == command == Command("hi", "a")
