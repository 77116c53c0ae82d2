"""What a newcomer types first: it works, or the error shows what works."""

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import chain

from tenxgraph import Agent, Message, ReactAgent, StateGraph, create_checkpointer, tool
from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import CompiledGraph, ToolNode
from tenxgraph.core.graph.persistence import _warn_of_no_checkpointer
from tenxgraph.core.state import TextBlock
from tenxgraph.storage.checkpointer import InMemoryCheckpointer, PgCheckpointer
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import ScriptedModel


def echo(state: Any) -> str:
    return "yes"


def weather(city: str) -> str:
    """Tell the weather."""
    return f"It rains in {city}."


def typed(value: Any) -> Any:
    """Return the value for a use that a type checker would refuse."""
    return value


def compiled(**options: Any) -> CompiledGraph[Any]:
    return chain(echo, **options)


def app() -> CompiledGraph[Any]:
    return compiled(checkpointer=InMemoryCheckpointer())


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "path as checkpointer": (
        lambda: compiled(checkpointer="agents.db"),
        GraphError,
        r'create_checkpointer\("agents.db"\)',
    ),
    "pathlib path as checkpointer": (
        lambda: compiled(checkpointer=Path("agents.db")),
        GraphError,
        "create_checkpointer",
    ),
    "class as checkpointer": (
        lambda: compiled(checkpointer=InMemoryCheckpointer),
        GraphError,
        r"checkpointer=InMemoryCheckpointer\(\.\.\.\)",
    ),
    "another class as checkpointer": (
        lambda: typed(ReactAgent(ScriptedModel([]))).compile(checkpointer=PgCheckpointer),
        GraphError,
        r"checkpointer=PgCheckpointer\(\.\.\.\)",
    ),
    "number as checkpointer": (
        lambda: compiled(checkpointer=5),
        GraphError,
        "must be a checkpointer, not int",
    ),
    "class as store": (
        lambda: compiled(store=InMemoryStore),
        GraphError,
        r"store=InMemoryStore\(\.\.\.\)",
    ),
    "path as store": (
        lambda: compiled(store="./memories"),
        GraphError,
        "create_local_qdrant_store",
    ),
    "thread id as config": (
        lambda: typed(app()).get_state("1"),
        ValueError,
        '{"thread_id": "1", "user_id": "ada"}',
    ),
    "thread id as config of a run": (
        lambda: typed(app()).invoke("hi", "1"),
        ValueError,
        '{"thread_id": "1", "user_id": "ada"}',
    ),
    "number as config": (
        lambda: typed(app()).get_state(7),
        ValueError,
        '{"thread_id": "7"',
    ),
    "thread id as config of a checkpointer": (
        lambda: typed(InMemoryCheckpointer()).get_state("1"),
        ValueError,
        '{"thread_id": "1"',
    ),
    "user id as config of a listing": (
        lambda: typed(InMemoryCheckpointer()).list_threads("ada"),
        ValueError,
        "must be a dict, not str",
    ),
    "text as tools": (lambda: typed(ToolNode)("weather"), GraphError, "list of functions"),
    "bare text as message": (
        lambda: typed(Message)("hi"),
        TypeError,
        r'Message\.user.*Message\(role="user", content=',
    ),
    "text and role in the wrong way": (
        lambda: typed(Message)("user", "hi"),
        TypeError,
        r"Message\.user",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused_with_what_works(name: str) -> None:
    attempt, kind, remedy = REFUSED[name]
    with pytest.raises(kind, match=remedy):
        attempt()


def test_a_path_as_checkpointer_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphError) as caught:
        compiled(checkpointer="postgresql://ada:secret@localhost/agents")
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpointer_made_as_the_error_says_is_taken(tmp_path: Path) -> None:
    checkpointer = create_checkpointer(str(tmp_path / "agents.db"))
    checkpointer.setup()
    assert compiled(checkpointer=checkpointer).invoke("hi", {"thread_id": "1"})["messages"]
    checkpointer.close()


@pytest.mark.parametrize("tools", [weather, tool(weather), [weather], (weather,), {weather}])
def test_a_single_tool_needs_no_list(tools: Any) -> None:
    assert [one.name for one in ToolNode(tools).tools] == ["weather"]
    agent = ReactAgent(ScriptedModel(["ok"]), tools=tools).agent
    assert agent.tool_node is not None
    assert [one.name for one in agent.tool_node.tools] == ["weather"]
    with_node = Agent(ScriptedModel(["ok"]), tool_node=ToolNode(tools))
    assert with_node.tool_node is not None


def test_a_text_as_content_is_one_text_block() -> None:
    expected = (TextBlock(text="hi"),)
    assert Message(role="user", content="hi").content == expected
    assert Message(role="assistant", content="hi").to_openai()["content"] == "hi"
    assert Message.model_validate({"role": "user", "content": "hi"}).content == expected
    assert Message.user("old").model_copy(update={"content": "hi"}).content == expected


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
def test_each_role_has_a_method_of_its_name(role: str) -> None:
    made = getattr(Message, role)("hi", message_id="m1")
    assert (made.role, made.text(), made.message_id) == (role, "hi", "m1")


def test_star_args_are_refused_with_a_list_instead() -> None:
    def total(*numbers: int) -> int:
        """Add."""
        return sum(numbers)

    with pytest.raises(GraphError, match=r"takes `\*numbers`.*`numbers: list\[str\]`"):
        ToolNode([total])


def test_a_wrapper_without_wraps_is_refused_and_one_with_it_is_taken() -> None:
    def bare(*args: Any, **kwargs: Any) -> Any:
        return weather(*args, **kwargs)

    with pytest.raises(GraphError, match=r"functools\.wraps"):
        ToolNode([bare])
    ToolNode([functools.wraps(weather)(bare)])


def test_what_the_model_does_not_know_of_a_tool_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def undocumented(city: str) -> str:
        return city

    def unannotated(town, unit="c"):  # type: ignore[no-untyped-def]  # what is tested
        """Tell the weather."""

    with caplog.at_level(logging.WARNING, logger="tenxgraph.graph"):
        for _ in range(2):
            ToolNode([undocumented, unannotated, weather])
    assert [record.getMessage() for record in caplog.records] == [
        "Tool 'undocumented' has no docstring, so the model knows nothing of it but its name. "
        "Write one, or pass `description=` to `@tool`.",
        "Tool 'unannotated' has parameters without annotations: town, unit. The model does not "
        "know their types, and its arguments are passed unchecked. Annotate them: `town: str`.",
    ]


def test_a_description_or_an_injected_parameter_is_no_gap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def described(city: str, state, **more):  # type: ignore[no-untyped-def]  # what is tested
        return city

    with caplog.at_level(logging.WARNING, logger="tenxgraph.graph"):
        tool(described, description="Tell the weather.")
    assert not caplog.records


def test_a_missing_checkpointer_is_logged_once_for_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _warn_of_no_checkpointer.cache_clear()
    with caplog.at_level(logging.WARNING, logger="tenxgraph.graph"):
        compiled(checkpointer=InMemoryCheckpointer())
        assert not caplog.records
        compiled()
        StateGraph().add_node(echo).set_entry_point("echo").compile()
    (record,) = caplog.records
    assert "gone when it ends" in record.getMessage()
    assert "create_checkpointer" in record.getMessage()


def test_a_tool_made_of_a_tool_keeps_its_parameters() -> None:
    again = tool(tool(weather), name="forecast")
    assert again.schema["function"]["parameters"]["required"] == ["city"]
    assert again.name == "forecast"
