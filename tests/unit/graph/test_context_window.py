"""The window on a long conversation: what is sent is trimmed, what is stored stays whole."""

import random
from typing import Any

import pytest
from backends import Backend
from graphs import config, on_durable, said
from threads import present

from tenxgraph import Agent, AgentState, ContextWindow, Message, ReactAgent, StateGraph, ToolCall
from tenxgraph.core.exceptions import GraphError, NodeError
from tenxgraph.core.graph.calls import turn_at
from tenxgraph.core.graph.context_window import estimate_tokens
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
from tenxgraph.testing import ScriptedModel


def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


def looking(at: str) -> ToolCall:
    return ToolCall(id=f"call-{at}", name="look", args={"at": at})


def chat(*texts: str) -> list[Message]:
    """Messages of user and assistant by turns; one that begins with `!` is the system's."""
    messages, spoken = [], 0
    for text in texts:
        if text.startswith("!"):
            messages.append(Message.system(text))
        else:
            role = Message.assistant if spoken % 2 else Message.user
            messages.append(role(text))
            spoken += 1
    return messages


async def sent(window: ContextWindow, context: list[Message]) -> list[str]:
    return said((await window.of(AgentState(context=context))).context)


def agent(model: ScriptedModel, **window: Any) -> Any:
    return ReactAgent(model, tools=look, context_window=ContextWindow(**window))


async def test_the_newest_messages_are_sent_from_a_users_on() -> None:
    context = chat("q1", "a1", "q2", "a2", "q3")
    assert await sent(ContextWindow(max_messages=3), context) == [
        "user: q2",
        "assistant: a2",
        "user: q3",
    ]
    # With four the first would be an answer, which many providers refuse.
    assert len(await sent(ContextWindow(max_messages=4), context)) == 3
    assert await sent(ContextWindow(max_messages=5), context) == said(context)


async def test_system_messages_stay_wherever_they_are() -> None:
    context = chat("!rules", "q1", "a1", "!news", "q2", "a2", "q3")
    assert await sent(ContextWindow(max_messages=1), context) == [
        "system: !rules",
        "system: !news",
        "user: q3",
    ]


async def test_tokens_are_four_characters_or_what_a_function_says() -> None:
    context = chat("x" * 400, "y" * 400, "z" * 40)
    assert [estimate_tokens(one) for one in context] == [104, 104, 14]
    assert len(await sent(ContextWindow(max_tokens=222), context)) == 3
    assert len(await sent(ContextWindow(max_tokens=221), context)) == 1
    exact = ContextWindow(max_tokens=3, count_tokens=lambda message: 1)
    assert len(await sent(exact, context)) == 3


async def test_arguments_and_results_of_tools_are_counted() -> None:
    called = Message.assistant(tool_calls=[looking("x" * 400)])
    assert estimate_tokens(called) > 100
    assert estimate_tokens(Message.tool_message("x" * 400, "c")) > 100


async def test_the_question_stays_however_long_the_work_on_it_is() -> None:
    context = chat("q1", "a1", "q2")
    for at in "abc":
        context.append(Message.assistant(tool_calls=[looking(at)]))
        context.append(Message.tool_message(f"seen {at}", f"call-{at}"))
    assert await sent(ContextWindow(max_messages=3), context) == [
        "user: q2",
        "assistant: ",
        "tool: seen c",
    ]
    # Even where they alone are too many.
    assert len(await sent(ContextWindow(max_messages=1), context)) == 3


def random_context(chance: random.Random) -> list[Message]:
    context: list[Message] = []
    for number in range(chance.randrange(1, 14)):
        kind = chance.choice(["user", "user", "assistant", "system", "turn", "open"])
        if kind in ("user", "assistant", "system"):
            context.append(getattr(Message, kind)(f"{kind} {number}"))
            continue
        ids = [f"{number}-{i}" for i in range(chance.randrange(1, 4))]
        calls = [ToolCall(id=one, name="look", args={}) for one in ids]
        context.append(Message.assistant(tool_calls=calls))
        for one in ids if kind == "turn" else ids[1:]:
            context.append(Message.tool_message("seen", one))
            if chance.random() < 0.2:
                context.append(Message.user(f"meanwhile {one}"))
    return context


@pytest.mark.parametrize("seed", range(20))
async def test_no_window_parts_a_call_from_its_results(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        context = random_context(chance)
        limits: dict[str, Any] = {"max_messages": chance.randrange(1, 10)}
        if chance.random() < 0.5:
            limits = {"max_tokens": chance.randrange(1, 90)}
        kept = {
            m.message_id
            for m in (await ContextWindow(**limits).of(AgentState(context=context))).context
        }
        for index, message in enumerate(context):
            results = turn_at(context, index).results if message.tool_calls else ()
            for result in results:
                if result is not None:
                    assert (message.message_id in kept) == (result.message_id in kept)
            if message.role == "system":
                assert message.message_id in kept
        newest = next((m for m in reversed(context) if m.role != "system"), None)
        assert newest is None or newest.message_id in kept


@on_durable
async def test_what_is_stored_stays_whole_and_what_is_sent_does_not(backend: Backend) -> None:
    checkpointer = backend.open()
    model = ScriptedModel([looking("a"), "I see a.", looking("b"), "I see b.", "You are welcome."])
    app = agent(model, max_messages=3).compile(checkpointer=checkpointer)
    for text in ("Look at a.", "Look at b.", "Thank you."):
        await app.ainvoke(text, config())
    assert said(model.requests[-1].messages) == ["user: Thank you."]
    assert said(model.requests[-2].messages) == ["user: Look at b.", "assistant: ", "tool: seen b"]
    assert len((await app.aget_state(config())).context) == 10
    await app.aclose()


@on_durable
async def test_each_message_that_falls_out_is_summarised_once(backend: Backend) -> None:
    given: list[tuple[list[str], str | None]] = []

    async def summarize(messages: list[Message], summary: str | None) -> str:
        given.append((said(messages), summary))
        return f"{summary or ''}[{len(messages)}]"

    model = ScriptedModel(lambda messages, tools: "ok")
    checkpointer = backend.open()
    app = ReactAgent(
        model,
        system_prompt="Be brief.",
        context_window=ContextWindow(max_messages=3, summarize=summarize),
    ).compile(checkpointer=checkpointer)
    for text in ("q1", "q2", "q3", "q4"):
        await app.ainvoke(text, config())
    assert given == [
        (["user: q1", "assistant: ok"], None),
        (["user: q2", "assistant: ok"], "[2]"),
    ]
    assert said(model.requests[-1].messages) == [
        "system: Be brief.\n\nSummary of the earlier conversation:\n[2][2]",
        "user: q3",
        "assistant: ok",
        "user: q4",
    ]
    stored = present(await app.aget_state(config()))
    assert (stored.context_summary, len(stored.context)) == ("[2][2]", 8)
    assert stored.context_summary_until == stored.context[3].message_id
    await app.aclose()


async def test_a_failed_answer_leaves_no_summary_and_is_summarised_again() -> None:
    given: list[list[str]] = []

    def summarize(messages: list[Message], summary: str | None) -> str:
        given.append(said(messages))
        return "short"

    model = ScriptedModel(["a1", RuntimeError("away"), "a2"])
    window = ContextWindow(max_messages=1, summarize=summarize)
    app = ReactAgent(model, context_window=window).compile(checkpointer=InMemoryCheckpointer())
    await app.ainvoke("q1", config())
    with pytest.raises(NodeError, match="away"):
        await app.ainvoke("q2", config())
    failed = await app.aget_state(config())
    assert failed is not None
    assert (failed.context_summary, failed.context_summary_until) == (None, None)
    await app.ainvoke(None, config())
    assert given == [["user: q1", "assistant: a1"]] * 2
    done = await app.aget_state(config())
    assert done is not None
    assert done.context_summary == "short"


async def test_a_question_that_was_kept_is_in_the_summary_as_well() -> None:
    given: list[str] = []

    def summarize(messages: list[Message], summary: str | None) -> str:
        given.extend(said(messages))
        return "short"

    model = ScriptedModel([looking("a"), looking("b"), looking("c"), "done", "bye"])
    app = agent(model, max_messages=3, summarize=summarize).compile(
        checkpointer=InMemoryCheckpointer()
    )
    await app.ainvoke("Look around.", config())
    await app.ainvoke("Thanks.", config())
    state = await app.aget_state(config())
    assert given == said(state.context[:-2])


async def test_a_summary_of_ones_own_is_sent_without_a_window() -> None:
    model = ScriptedModel(["ok", "ok"])
    app = ReactAgent(model).compile(checkpointer=InMemoryCheckpointer())
    await app.ainvoke({"messages": "hi", "state": {"context_summary": "Ada likes tea."}}, config())
    first = said(model.requests[0].messages)
    assert first == ["system: Summary of the earlier conversation:\nAda likes tea.", "user: hi"]


async def test_a_window_that_has_grown_repeats_nothing() -> None:
    given: list[list[str]] = []

    def summarize(messages: list[Message], summary: str | None) -> str:
        given.append(said(messages))
        return "short"

    context = chat("q1", "a1", "q2", "a2", "q3", "a3", "q4")
    small = await ContextWindow(max_messages=1, summarize=summarize).of(AgentState(context=context))
    state = AgentState(context=context, **small.update)
    wide = await ContextWindow(max_messages=5, summarize=summarize).of(state)
    assert (len(given), wide.update, wide.summary) == (1, {}, "short")


async def test_an_agent_as_a_node_of_ones_own_graph_keeps_its_summary() -> None:
    window = ContextWindow(max_messages=1, summarize=lambda messages, summary: "short")
    node = Agent(ScriptedModel(["a1", "a2"]), context_window=window)
    graph = StateGraph().add_node("model", node).set_entry_point("model")
    app = graph.compile(checkpointer=InMemoryCheckpointer())
    await app.ainvoke("q1", config())
    result = await app.ainvoke("q2", config())
    assert (said(result["messages"]), result["state"].context_summary) == (
        ["assistant: a2"],
        "short",
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"max_messages": 0}, {"max_tokens": -1}, {"max_messages": "10"}, {"max_tokens": True}],
)
def test_limits_that_are_none_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=r"max_messages|max_tokens"):
        ContextWindow(**options)


def test_what_is_no_window_is_refused() -> None:
    with pytest.raises(GraphError, match=r"ContextWindow\(max_messages=40\)"):
        ReactAgent(ScriptedModel([]), context_window=40)


async def test_a_hook_that_returns_something_else_is_named() -> None:
    context = chat("q1", "a1", "q2")
    unfit: Any = lambda *given: None  # noqa: E731 - as short as a newcomer's
    with pytest.raises(GraphError, match="`summarize` must return the new summary as a string"):
        await ContextWindow(max_messages=1, summarize=unfit).of(AgentState(context=context))
    with pytest.raises(GraphError, match="`count_tokens` must return a number"):
        await ContextWindow(max_tokens=1, count_tokens=unfit).of(AgentState(context=context))
