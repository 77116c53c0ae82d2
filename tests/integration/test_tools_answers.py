"""What a model is answered: results, errors, and nothing that stops the conversation."""

import asyncio
import threading
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any

import programs
import pytest
from graphs import config, said
from pydantic import BaseModel

from tenxgraph.core.exceptions import GraphError, ToolError
from tenxgraph.core.graph import END, StateGraph, ToolNode, tool
from tenxgraph.core.state import AgentState, Message, ToolCall, ToolResultBlock
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel


def call(name: str, call_id: str = "c1", /, **args: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, args=args)


async def answers(tools: list[Any], *calls: ToolCall, **settings: Any) -> list[Message]:
    """What the model is answered when it calls these tools."""
    model = ScriptedModel([list(calls), "done"])
    app = ReactAgent(model, tools).compile()
    result = await app.ainvoke("go", config(**settings))
    assert result["messages"][-1].text() == "done"
    return [message for message in result["messages"] if message.role == "tool"]


def is_error(message: Message) -> bool:
    (block,) = message.content
    assert isinstance(block, ToolResultBlock)
    return block.is_error


async def test_sync_async_and_class_based_tools_run_side_by_side() -> None:
    both_are_here = threading.Barrier(2, timeout=5)
    met = asyncio.Event()

    def first() -> str:
        both_are_here.wait()
        return "1"

    def second() -> str:
        both_are_here.wait()
        return "2"

    async def third() -> str:
        await asyncio.wait_for(met.wait(), 5)
        return "3"

    class Fourth:
        """The fourth."""

        async def __call__(self) -> str:
            met.set()
            return "4"

    tools = [first, second, third, Fourth()]
    names = ["first", "second", "third", "Fourth"]
    got = await answers(tools, *(call(name, f"c{i}") for i, name in enumerate(names)))
    assert [one.text() for one in got] == ["1", "2", "3", "4"]
    assert [one.tool_call_id for one in got] == ["c0", "c1", "c2", "c3"]


async def test_a_parameter_may_be_called_anything() -> None:
    def echo(function: str, name: str, context: str, model_config: str, schema: str) -> str:
        return " ".join((function, name, context, model_config, schema))

    async def aecho(self: str, args: str) -> str:
        return f"{self} {args}"

    named = {"function": "a", "name": "b", "context": "c", "model_config": "d", "schema": "e"}
    calls = [
        ToolCall(name="echo", args=named),
        ToolCall(name="aecho", args={"self": "f", "args": "g"}),
    ]
    assert [one.text() for one in await answers([echo, aecho], *calls)] == ["a b c d e", "f g"]


class Flight(BaseModel):
    number: str
    price: Decimal


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("as it is", "as it is"),
        (None, "null"),
        (7, "7"),
        ({"when": date(2026, 1, 2)}, '{"when": "2026-01-02"}'),
        (Flight(number="SK1", price=Decimal("1.50")), '{"number": "SK1", "price": "1.50"}'),
        ((1, {2}), "[1, [2]]"),
        (Message.assistant("a message"), "a message"),
        ("\ud800", "\ud800"),
        (object, "<class 'object'>"),
    ],
)
async def test_whatever_a_tool_returns_is_told(returned: Any, told: str) -> None:
    def give() -> Any:
        return returned

    (got,) = await answers([give], call("give"))
    assert got.text() == told
    assert not is_error(got)


async def test_what_a_tool_raises_is_told_and_the_run_goes_on() -> None:
    def broken() -> None:
        raise KeyError("seat 12")

    def refusing() -> None:
        raise ToolError("The flight is full. Try another one.")

    got = await answers([broken, refusing], call("broken", "a"), call("refusing", "b"))
    assert [one.text() for one in got] == [
        "KeyError: 'seat 12'",
        "The flight is full. Try another one.",
    ]
    assert all(map(is_error, got))


async def test_bad_arguments_and_unknown_tools_are_told_and_nothing_runs() -> None:
    ran = Counter[str]()

    def book(seat: int) -> None:
        ran["book"] += 1

    bad_json = ToolCall.from_arguments(id="a", name="book", arguments='{"seat": ')
    got = await answers(
        [book], bad_json, call("book", "b", seat="window"), call("bok", "c"), call("book", "d")
    )
    texts = [one.text() for one in got]
    assert texts[0].startswith("The arguments of book are no JSON object: '{\"seat\": '.")
    assert texts[1].startswith("The arguments of book do not fit: seat: Input should be")
    assert texts[2] == "There is no tool 'bok'. There are: book."
    assert texts[3] == "The arguments of book do not fit: seat: Field required."
    assert all(map(is_error, got))
    assert not ran


async def test_a_tool_that_takes_too_long_is_cancelled_and_the_model_is_told() -> None:
    cancelled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def impatient() -> None:
        raise TimeoutError("of its own")

    got = await answers(
        [slow, impatient], call("slow", "a"), call("impatient", "b"), tool_timeout=0.5
    )
    assert got[0].text().startswith("slow gave no result within 0.5 s. It may have done its work")
    assert got[1].text() == "TimeoutError: of its own"
    assert cancelled.is_set()


async def test_a_tool_gets_what_its_parameters_name() -> None:
    seen: dict[str, Any] = {}

    class Notes(AgentState):
        topic: str = "tea"

    async def look(  # type: ignore[no-untyped-def]
        word: str, state, config, checkpointer, tool_call_id, idempotency_key, store, emit
    ) -> str:
        """Look.

        Args:
            word: What for.
        """
        seen.update(locals())
        emit({"progress": 0.5})
        return "seen"

    model = ScriptedModel([call("look", "same", word="x"), call("look", "same", word="y"), "done"])
    app = ReactAgent(model, [look], state=Notes).compile()
    chunks = [chunk async for chunk in app.astream("go", config())]
    assert seen["word"] == "y"
    assert seen["state"].topic == "tea"
    assert seen["config"]["thread_id"] == "t"
    assert seen["config"]["message_id"] == seen["state"].context[-1].message_id
    assert seen["checkpointer"] is app.checkpointer
    assert seen["tool_call_id"] == "same"
    custom = [(chunk.data, chunk.node) for chunk in chunks if chunk.type == "custom"]
    assert custom == [({"progress": 0.5}, "tools")] * 2
    (told,) = model.requests[0].tools
    assert list(told["function"]["parameters"]["properties"]) == ["word"]


async def test_an_idempotency_key_is_the_calls_own_and_the_same_on_every_attempt() -> None:
    keys: list[str] = []

    async def pay(idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise SystemError("the first attempt")
        return "paid"

    async def ask() -> str:
        from tenxgraph.core.graph import interrupt

        return str(interrupt("sure?"))

    model = ScriptedModel(
        [[call("pay", "same"), call("pay", "same"), call("ask", "x")], call("pay", "same"), "done"]
    )
    app = ReactAgent(model, [pay, ask]).compile()
    await app.ainvoke("go", config())
    await app.ainvoke({"resume": "yes"}, config())
    assert len(keys) == 4
    assert keys[2] == keys[0], "the failed call, again"
    assert len(set(keys)) == 3


async def test_tools_in_a_graph_of_ones_own() -> None:
    @tool(name="double")
    def twice(n: int) -> int:
        return 2 * n

    node = ToolNode([twice])

    def model(state: AgentState) -> Any:
        if state.context[-1].role == "tool":
            return f"It is {state.context[-1].text()}."
        return Message.assistant(tool_calls=[call("double", n=21)])

    def more(state: AgentState) -> str:
        return "run tools" if state.context[-1].tool_calls else END

    graph = StateGraph().add_node("model", model).add_node("run tools", node)
    graph.set_entry_point("model").add_conditional_edges("model", more)
    app = graph.add_edge("run tools", "model").compile()
    result = await app.ainvoke("go", config())
    assert said(result["messages"])[1:] == ["tool: 42", "assistant: It is 42."]
    assert await ToolNode()(AgentState(), config(), app.checkpointer) == []


async def test_without_tools_a_model_that_calls_one_is_told_that_there_are_none() -> None:
    asked = ToolCall(id="c", name="search", args={})
    app = ReactAgent(ScriptedModel(["Hello!", asked, "Sorry."])).compile()
    assert said((await app.ainvoke("hi", config()))["state"]) == ["user: hi", "assistant: Hello!"]
    result = await app.ainvoke("search", config())
    told = ["assistant: ", "tool: There is no tool 'search'. There are: none.", "assistant: Sorry."]
    assert said(result["messages"]) == told


async def test_a_model_may_be_any_function() -> None:
    def sync(messages: list[Message], tools: list[dict[str, Any]]) -> str:
        assert [one.role for one in messages] == ["system", "user"]
        return "sync"

    async def coroutine(messages: Any, tools: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": "async"}

    for model, text in ((sync, "sync"), (coroutine, "async")):
        app = ReactAgent(model, system_prompt="Be kind.").compile()
        assert (await app.ainvoke("hi", config()))["messages"][-1].text() == text

    with pytest.raises(GraphError, match="two arguments"):
        ReactAgent(lambda messages: "x")
    with pytest.raises(GraphError, match="takes options, but there are 'temperature'"):
        ReactAgent(sync, temperature=1)
    with pytest.raises(GraphError, match="not int"):
        ReactAgent(3)
    with pytest.raises(GraphError, match="must answer with an assistant's message"):
        await ReactAgent(lambda messages, tools: None).compile().ainvoke("hi", config())


async def test_the_same_answer_twice_is_two_messages() -> None:
    answer = Message.assistant("yes")
    app = ReactAgent(ScriptedModel([answer, answer])).compile()
    await app.ainvoke("a?", config())
    result = await app.ainvoke("b?", config())
    assert said(result["state"]) == ["user: a?", "assistant: yes", "user: b?", "assistant: yes"]


async def test_many_blocking_tools_run_at_once_whatever_the_number_of_processors() -> None:
    all_here = threading.Barrier(40, timeout=10)

    def block() -> int:
        return all_here.wait()

    got = await answers([block], *(call("block", str(i)) for i in range(40)))
    assert sorted(int(one.text()) for one in got) == list(range(40))


def test_a_forked_child_has_threads_of_its_own() -> None:
    # Python 3.12 warns of every fork of a process with threads.
    assert programs.run(FORKED, flags=("-W", "ignore::DeprecationWarning")) == "hello\nhello\n"


FORKED = """
    import asyncio, os
    from tenxgraph.core.graph import StateGraph

    def hello():
        return "hello"

    app = StateGraph().add_node("hello", hello).set_entry_point("hello").compile()
    def say():
        result = asyncio.run(app.ainvoke("hi", {"thread_id": str(os.getpid())}))
        print(result["messages"][0].text(), flush=True)
    say()
    if not os.fork():
        say()
        os._exit(0)
    assert os.wait()[1] == 0
"""
