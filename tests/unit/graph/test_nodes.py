"""Nodes: what they may be, ask for and return, and where the run goes after them."""

import asyncio
import functools
import threading
from typing import Annotated, Any

import pytest
from graphs import chain, config, said
from pydantic import Field
from threads import present

from tenxgraph.core.exceptions import GraphError, InputError, NodeError, StaleStateError
from tenxgraph.core.graph import END, START, Command, RunResult, StateGraph, interrupt
from tenxgraph.core.state import AgentState, Message


class Notes(AgentState):
    topic: str = ""
    lines: Annotated[list[str], lambda old, new: [*old, *new]] = Field(default_factory=list)


async def result_of(node: Any, state: Any = Notes) -> RunResult[Any]:
    return await chain(node, state=state).ainvoke("hi", config())


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (None, []),
        ("hello", ["assistant: hello"]),
        (Message.assistant("hello"), ["assistant: hello"]),
        (["one", Message.assistant("two")], ["assistant: one", "assistant: two"]),
        (("one",), ["assistant: one"]),
        ({"role": "assistant", "content": "hello"}, None),
        ({"messages": "hello"}, ["assistant: hello"]),
        ({"context": [{"role": "assistant", "content": "hello"}]}, ["assistant: hello"]),
        ({"topic": "x"}, []),
        (Command(update="hello"), ["assistant: hello"]),
        (Command(), []),
    ],
)
async def test_a_node_returns_an_update(returned: Any, expected: list[str] | None) -> None:
    def node() -> Any:
        return returned

    if expected is None:
        with pytest.raises(NodeError, match="no field 'role'"):
            await result_of(node)
        return
    result = await result_of(node)
    assert said(result["messages"]) == expected
    assert said(result["state"]) == ["user: hi", *expected]


async def test_fields_are_set_and_reduced_and_validated() -> None:
    def write(state: Notes) -> dict[str, Any]:
        return {"topic": "tea", "lines": ["one"]}

    def more(state: Notes) -> dict[str, Any]:
        return {"lines": ["two"], "context_summary": "short"}

    result = await chain(write, more, state=Notes).ainvoke("hi", config())
    state = result["state"]
    assert (state.topic, state.lines, state.context_summary) == ("tea", ["one", "two"], "short")

    def wrong() -> dict[str, Any]:
        return {"topic": 7}

    with pytest.raises(NodeError, match="`topic` cannot become 7"):
        await result_of(wrong)

    def no_list() -> dict[str, Any]:
        return {"lines": 7}

    with pytest.raises(NodeError, match="'no_list': The reducer of `lines` failed on 7: TypeError"):
        await result_of(no_list)


async def test_a_whole_state_may_be_returned() -> None:
    def node(state: Notes) -> Notes:
        state.topic = "tea"
        state.context.append(Message.assistant("hello"))
        return state

    result = await result_of(node)
    assert result["state"].topic == "tea"
    assert said(result["messages"]) == ["assistant: hello"]


async def test_what_a_node_does_to_its_state_without_returning_it_is_forgotten() -> None:
    def node(state: Notes) -> None:
        state.topic = "tea"
        state.context.clear()

    result = await result_of(node)
    assert result["state"].topic == ""
    assert said(result["state"]) == ["user: hi"]


@pytest.mark.parametrize("returned", [7, object(), [3], {"nothing": 1}])
async def test_nonsense_is_refused_by_name(returned: Any) -> None:
    def node() -> Any:
        return returned

    with pytest.raises(NodeError, match="'node'"):
        await result_of(node)


async def test_nodes_are_sync_or_async_functions_methods_partials_and_objects() -> None:
    threads = []

    def plain(state: AgentState) -> str:
        threads.append(threading.get_ident())
        return "plain"

    async def coroutine(state: AgentState, config: dict[str, Any]) -> str:
        threads.append(threading.get_ident())
        return "coroutine"

    class Thing:
        async def __call__(self, state: AgentState) -> str:
            return "object"

        def method(self, config: dict[str, Any]) -> str:
            return "method"

    async def greet(word: str, *, state: AgentState) -> str:
        return word

    graph = StateGraph()
    nodes: list[Any] = [
        plain,
        coroutine,
        Thing(),
        Thing().method,
        functools.partial(greet, word="partial"),
        lambda: "lambda",
    ]
    for number, node in enumerate(nodes):
        graph.add_node(str(number), node)
        graph.add_edge(START if number == 0 else str(number - 1), str(number))
    result = await graph.compile().ainvoke("hi", config())
    texts = [message.text() for message in result["messages"]]
    assert texts == ["plain", "coroutine", "object", "method", "partial", "lambda"]
    assert threads[0] != threading.get_ident(), "a sync node may block without blocking the loop"
    assert threads[1] == threading.get_ident()


async def test_a_node_gets_what_its_parameters_name() -> None:
    seen: dict[str, Any] = {}

    def node(store, emit, checkpointer, config, state, extra=3):  # type: ignore[no-untyped-def]
        seen.update(locals())

    graph = chain(node, store=["a store"])
    await graph.ainvoke("hi", config(thread_name="named"))
    assert seen["store"] == ["a store"]
    assert seen["checkpointer"] is graph.checkpointer
    assert seen["config"]["thread_id"] == "t"
    assert "_checkpoint_version" not in seen["config"]
    assert said(seen["state"]) == ["user: hi"]
    assert seen["extra"] == 3


async def test_a_parameter_that_nothing_provides_is_refused_when_the_graph_is_built() -> None:
    def node(state: AgentState, config: Any, weather: str) -> None: ...

    with pytest.raises(GraphError, match=r"'node' asks for 'weather'.*config, emit"):
        StateGraph().add_node(node)


async def test_a_command_goes_where_it_says() -> None:
    def first() -> Command:
        return Command(update="first", goto="third")

    def second() -> str:
        return "second"

    def third() -> Command:
        return Command(goto=END)

    def fourth() -> str:
        return "fourth"

    result = await chain(first, second, third, fourth).ainvoke("hi", config())
    assert said(result["messages"]) == ["assistant: first"]

    def lost() -> Command:
        return Command(goto="nowhere")

    with pytest.raises(GraphError, match=r"'nowhere'.*There are: 'lost'"):
        await chain(lost).ainvoke("hi", config())


async def test_conditions_choose_by_name_or_by_path_map() -> None:
    def ask(state: Notes) -> None: ...

    def by_name(state: Notes) -> str:
        return state.topic

    async def by_length(state: Notes, config: Any) -> bool:
        return len(state.context) > 1

    graph = StateGraph(Notes)
    for name in ("ask", "tea", "coffee"):
        graph.add_node(name, (lambda word: lambda: word)(name))
    graph.add_conditional_edges(START, lambda state: "ask")
    graph.add_conditional_edges("ask", by_name, ["tea", "coffee"])
    graph.add_conditional_edges("tea", by_length, {True: "coffee", False: END})
    app = graph.compile()
    chosen = await app.ainvoke({"messages": "hi", "state": {"topic": "tea"}}, config())
    assert [one.text() for one in chosen["messages"]] == ["ask", "tea", "coffee"]
    with pytest.raises(GraphError, match="chose 'milk', not one of 'tea', 'coffee'"):
        await app.ainvoke({"messages": "hi", "state": {"topic": "milk"}}, config("other"))


async def test_an_error_in_a_condition_is_told_and_recorded() -> None:
    graph = StateGraph().add_node("a", lambda: "a").set_entry_point("a")
    graph.add_conditional_edges("a", lambda state: 3)
    app = graph.compile()
    with pytest.raises(GraphError, match="must name a node, not 3"):
        await app.ainvoke("hi", config())
    state = await app.aget_state(config())
    assert state is not None
    assert state.execution_meta.status == "error"


def test_a_graph_that_cannot_run_is_refused() -> None:
    def node() -> None: ...

    with pytest.raises(GraphError, match="no entry point"):
        StateGraph().add_node(node).compile()
    with pytest.raises(GraphError, match="leads to 'nowhere'"):
        StateGraph().add_node(node).set_entry_point("nowhere").compile()
    with pytest.raises(GraphError, match="begins at 'nowhere'"):
        StateGraph().add_node(node).set_entry_point("node").add_edge("nowhere", END).compile()
    with pytest.raises(GraphError, match="an edge from 'node' already"):
        StateGraph().add_node(node).add_edge("node", END).add_edge("node", END)
    with pytest.raises(GraphError, match="a node 'node' already"):
        StateGraph().add_node(node).add_node(node)
    with pytest.raises(GraphError, match="cannot be the name"):
        StateGraph().add_node(END, node)
    with pytest.raises(GraphError, match="has no function"):
        StateGraph().add_node("node")
    with pytest.raises(GraphError, match="An interrupt is set at 'nowhere'"):
        StateGraph().add_node(node).set_entry_point("node").compile(interrupt_after=["nowhere"])


def test_new_threads_begin_with_the_instance_that_was_given() -> None:
    class Strict(AgentState):
        topic: str

    with pytest.raises(GraphError, match=r"StateGraph\(Strict\(\.\.\.\)\)"):
        StateGraph(Strict)
    with pytest.raises(GraphError, match="subclass of AgentState"):
        StateGraph(dict)  # type: ignore[type-var]

    def node(state: Strict) -> dict[str, Any]:
        return {"topic": state.topic + "!"}

    app = chain(node, state=Strict(topic="tea"))
    for thread in ("a", "b"):
        assert app.invoke("hi", config(thread))["state"].topic == "tea!"


def test_draw_shows_every_way() -> None:
    graph = StateGraph()
    for name in ("ask", "use tools"):
        graph.add_node(name, lambda: None)
    graph.set_entry_point("ask")
    graph.add_conditional_edges("ask", lambda: "x", {"more": "use tools", "enough": END})
    graph.add_edge("use tools", "ask")
    assert graph.compile().draw().splitlines() == [
        "flowchart TD",
        "    __start__([start])",
        "    __end__([end])",
        "    ask[ask]",
        "    use_tools[use tools]",
        "    __start__ --> ask",
        "    ask -.-> use_tools",
        "    ask -.-> __end__",
        "    use_tools --> ask",
    ]


def test_everything_has_a_sync_form_also_inside_a_running_loop() -> None:
    def node() -> str:
        return "hello"

    app = chain(node)
    assert app.invoke("hi", config())["messages"][0].text() == "hello"
    assert [chunk.type for chunk in app.stream("hi", config())] == ["message", "update", "end"]
    state = app.get_state(config())
    assert state is not None
    assert said(state) == ["user: hi", "assistant: hello"] * 2

    async def inside() -> Any:
        return app.invoke("hi", config("inside"))["messages"]

    assert said(asyncio.run(inside())) == ["assistant: hello"]


def test_a_thread_id_is_made_up_and_returned_and_the_callers_config_stays_as_it_is() -> None:
    app = chain(_hello)
    given: dict[str, Any] = {"user_id": "u", "_checkpoint_version": 999, "thread_meta": {"a": 1}}
    before = dict(given)
    first, second = app.invoke("hi", given), app.invoke("hi", given)
    assert given == before
    assert first["thread_id"] != second["thread_id"]
    assert app.get_state({"thread_id": first["thread_id"], "user_id": "u"}) is not None
    assert app.invoke("hi")["state"].execution_meta.run_id


def _hello() -> str:
    return "hello"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"recursion_limit": 0}, "recursion_limit"),
        ({"node_timeout": -1}, "node_timeout"),
        ({"tool_timeout": True}, "tool_timeout"),
        ({"on_pending": "resume"}, "on_pending"),
        ("t", "`config` must be a dict"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        chain(_hello).invoke("hi", given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"message": "hi"}, "The input has 'message'"),
        ({"messages": [7]}, "int is no message"),
        ({"state": "x"}, "must be a dict of state fields"),
        ({"state": {"nothing": 1}}, "no field 'nothing'"),
        ({"resume": "yes"}, None),
    ],
)
def test_an_input_that_makes_no_sense_is_refused(given: Any, problem: str | None) -> None:
    app = chain(_hello)
    if problem is None:
        app.invoke("hi", config())
        problem = "not waiting for an answer"
    with pytest.raises(InputError, match=problem):
        app.invoke(given, config())


def test_asking_outside_of_a_run_is_refused() -> None:
    with pytest.raises(GraphError, match="inside a node or a tool"):
        interrupt("?")


@pytest.mark.parametrize("how", [SystemExit, KeyboardInterrupt])
def test_a_node_that_would_end_the_process_fails_like_any_other(how: type[BaseException]) -> None:
    def leave() -> None:
        raise how(3)

    async def leave_too() -> None:
        raise how(3)

    for node in (leave, leave_too):
        app = chain(node, state=Notes)
        with pytest.raises(NodeError, match="tried to end the process"):
            app.invoke("hi", config())
        assert present(app.get_state(config())).execution_meta.status == "error"


async def test_a_thread_of_the_nodes_own_that_is_stale_is_the_nodes_failure() -> None:
    def node() -> None:
        raise StaleStateError("another", 1, 2)

    app = chain(node, state=Notes)
    with pytest.raises(NodeError, match="StaleStateError"):
        await app.ainvoke("hi", config())
    state = present(await app.aget_state(config()))
    assert state.execution_meta.status == "error"


async def test_however_often_it_is_cancelled_a_run_ends_as_stopped() -> None:
    entered = asyncio.Event()

    async def slow() -> None:
        entered.set()
        await asyncio.sleep(30)

    app = chain(slow, state=Notes)
    running = asyncio.ensure_future(app.ainvoke("hi", config()))
    await entered.wait()
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)
    state = present(await app.aget_state(config()))
    assert state.execution_meta.status == "stopped"


async def test_the_first_choice_may_ask_for_what_any_node_may() -> None:
    def choose(state: Notes, config: dict[str, Any], checkpointer: Any, store: Any) -> str:
        assert store is None
        return "second" if checkpointer is not None and config["user_id"] else "first"

    graph = StateGraph(Notes).add_node("first", lambda state: "1").add_node("second", lambda s: "2")
    graph.add_conditional_edges(START, choose)
    result = await graph.compile().ainvoke("hi", config())
    assert said(result["messages"]) == ["assistant: 2"]
