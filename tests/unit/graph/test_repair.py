"""What a model is sent: a conversation that every provider takes, whatever the thread holds."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenxgraph.core.graph.repair import NO_RESULT, sendable
from tenxgraph.core.state import DocumentBlock, ImageBlock, Message, TextBlock, ToolCall
from tenxgraph.testing import broken_rules


def call(call_id: str, name: str = "f", **args: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, args=args)


def asks(*calls: ToolCall) -> Message:
    return Message.assistant(tool_calls=calls)


def result(call_id: str, text: str = "r") -> Message:
    return Message.tool_message(text, call_id, name="f")


def user(text: str = "hi") -> Message:
    return Message.text_message(text)


def shown(context: list[Message]) -> list[str]:
    sent = sendable(context)
    assert broken_rules([one.to_openai() for one in sent]) == []
    return [
        f"calls {','.join(call.id for call in one.tool_calls)}"
        if one.tool_calls
        else f"{one.tool_call_id}={one.text()}"
        if one.role == "tool"
        else f"{one.role}: {one.text()}"
        for one in sent
    ]


def test_a_whole_conversation_is_sent_as_it_is_by_the_very_same_messages() -> None:
    context = [user(), asks(call("a"), call("b")), result("a"), result("b"), user("and?")]
    assert all(one is other for one, other in zip(sendable(context), context, strict=True))


@pytest.mark.parametrize(
    ("context", "sent"),
    [
        ([user(), asks(call("a"))], ["user: hi", "calls a", f"a={NO_RESULT}"]),
        (
            [user(), asks(call("a"), call("b")), result("b"), user("x")],
            ["user: hi", "calls a,b", f"a={NO_RESULT}", "b=r", "user: x"],
        ),
        (
            [user(), asks(call("a"), call("b")), result("b", "2"), user("x"), result("a", "1")],
            ["user: hi", "calls a,b", "a=1", "b=2", "user: x"],
        ),
        ([user(), result("a")], ["user: hi"]),
        ([result("a"), user()], ["user: hi"]),
        (
            [user(), asks(call("a")), result("a", "1"), result("a", "2")],
            ["user: hi", "calls a", "a=1"],
        ),
        ([user(), Message.assistant(""), Message.assistant(None)], ["user: hi"]),
        (
            [user(), asks(call("a")), Message.assistant("never mind"), result("a")],
            ["user: hi", "calls a", f"a={NO_RESULT}", "assistant: never mind"],
        ),
        (
            [user(), asks(call("a")), result("a", "1"), asks(call("a")), result("a", "2")],
            ["user: hi", "calls a", "a=1", "calls a_1", "a_1=2"],
        ),
        (
            [user(), asks(call(""), call("")), result("", "1"), result("", "2")],
            ["user: hi", "calls call_1,call_2", "call_1=1", "call_2=2"],
        ),
        (
            [user(), asks(call("x" * 40), call("x" * 40)), result("x" * 40, "1")],
            [
                "user: hi",
                f"calls {'x' * 40},{'x' * 32}_1",
                f"{'x' * 40}=1",
                f"{'x' * 32}_1={NO_RESULT}",
            ],
        ),
    ],
)
def test_what_is_broken_is_repaired(context: list[Message], sent: list[str]) -> None:
    assert shown(context) == sent


def test_names_and_arguments_are_such_as_every_server_takes() -> None:
    wrong = ToolCall.from_arguments(id="a", name="do it!", arguments='{"half": ')
    nameless = ToolCall(id="b", name="")
    sent = sendable([user(), asks(wrong, nameless), result("a"), result("b")])
    written = sent[1].to_openai()["tool_calls"]
    assert [one["function"] for one in written] == [
        {"name": "do_it_", "arguments": "{}"},
        {"name": "unknown", "arguments": "{}"},
    ]


def test_an_id_stays_the_same_while_the_conversation_grows() -> None:
    context = [user(), asks(call("a")), result("a"), asks(call("a")), result("a")]
    before = [one.to_openai() for one in sendable(context)]
    later = [one.to_openai() for one in sendable([*context, asks(call("a")), result("a")])]
    assert later[: len(before)] == before, "or the provider's prompt cache would be of no use"


SIGNED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "hm",
    "reasoning_details": [{"data": "x"}],
    "tool_calls": [
        {
            "id": "a",
            "type": "function",
            "function": {"name": "f", "arguments": "{}", "sig": "s"},
            "extra_content": {"google": {"thought_signature": "t"}},
        },
        {"id": "a", "type": "custom", "custom": {"name": "code", "input": "print(1)"}, "x": 1},
        {"id": "c", "type": "mcp", "mcp": {"server": "s"}},
    ],
}


def test_what_a_provider_demands_back_is_sent_though_ids_are_made_unique() -> None:
    context = [Message.from_openai(SIGNED), result("a", "1"), result("a", "2"), result("c", "3")]
    sent = [one.to_openai() for one in sendable([user(), *context])]
    assert broken_rules(sent) == []
    first, second, third = SIGNED["tool_calls"]
    assert sent[1] == {**SIGNED, "tool_calls": [first, {**second, "id": "a_1"}, third]}
    assert [one["tool_call_id"] for one in sent[2:]] == ["a", "a_1", "c"]


def test_arguments_that_are_nested_too_deeply_are_answered_like_any_that_are_wrong() -> None:
    deep = ToolCall.from_arguments(id="a", name="f", arguments='{"a":' * 100_000)
    sent = [one.to_openai() for one in sendable([user(), asks(deep), result("a")])]
    assert sent[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_custom_calls_keep_their_input_and_get_names_that_are_accepted() -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "run it", "input": "{half"}}
    asked = Message.from_openai({"role": "assistant", "tool_calls": [custom]})
    sent = sendable([user(), asked, result("a")])
    assert sent[1].to_openai()["tool_calls"] == [
        {"id": "a", "type": "custom", "custom": {"name": "run_it", "input": "{half"}}
    ]


def test_nulls_and_what_is_no_call_are_not_sent() -> None:
    function = {"name": "f", "arguments": "{}"}
    answer = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "function_call": None,
        "annotations": [],
        "tool_calls": [
            None,
            {"id": "a", "type": None, "index": None, "function": function},
            {"id": "b", "function": {"name": "f", "arguments": {"n": 1}}},
        ],
    }
    nothing = {"role": "assistant", "content": "hi", "tool_calls": []}
    results = [result("a"), result("b")]
    context = [Message.from_openai(answer), *results, Message.from_openai(nothing)]
    assert context[0].to_openai() == answer
    sent = [one.to_openai() for one in sendable([user(), *context])]
    assert sent[1] == {
        "role": "assistant",
        "content": None,
        "annotations": [],
        "tool_calls": [
            {"id": "a", "type": "function", "function": function},
            {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"n":1}'}},
        ],
    }
    assert sent[4] == {"role": "assistant", "content": "hi"}


@pytest.mark.parametrize(
    "answer",
    [
        {"content": None, "annotations": [], "refusal": None},
        {"content": None, "reasoning_content": "only thoughts"},
        {"content": []},
        {"content": [{"type": "text", "text": ""}]},
        {},
    ],
)
def test_an_answer_that_says_nothing_is_not_sent(answer: dict[str, Any]) -> None:
    message = Message.from_openai({"role": "assistant", **answer})
    assert len(sendable([user(), message])) == 1


@pytest.mark.parametrize(
    "answer", [{"refusal": "no"}, {"audio": {"id": "a"}}, {"content": [{"type": "thinking"}]}]
)
def test_an_answer_that_says_something_is_sent(answer: dict[str, Any]) -> None:
    message = Message.from_openai({"role": "assistant", **answer})
    assert sendable([user(), message])[1] is message


def test_images_of_results_follow_them_in_a_message_of_the_users() -> None:
    image, file = ImageBlock(url="https://x/y.png"), DocumentBlock(name="a.pdf", data=b"%PDF")
    context = [
        user(),
        asks(call("a"), call("b"), call("c")),
        Message.tool_message([TextBlock(text="Here:"), image], "a", name="f"),
        result("b"),
        Message.tool_message([file], "c", name="f"),
    ]
    assert context[2].to_openai()["name"] == "f"
    sent = [one.to_openai() for one in sendable([*context, Message.assistant("A cat.")])]
    assert broken_rules(sent) == []
    assert [one["role"] for one in sent[2:]] == ["tool", "tool", "tool", "user", "assistant"]
    assert [one["content"] for one in sent[2:5]] == ["Here:\n[image]", "r", "[document: a.pdf]"]
    assert sent[5]["content"] == [
        {"type": "text", "text": "From the result of a:"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "text", "text": "From the result of c:"},
        {
            "type": "file",
            "file": {
                "filename": "a.pdf",
                "file_data": "data:application/octet-stream;base64,JVBERg==",
            },
        },
    ]


def test_a_result_that_came_in_parts_is_sent_in_parts() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "u"}}]
    came = {"role": "tool", "tool_call_id": "a", "content": parts}
    sent = sendable([user(), asks(call("a")), Message.from_openai(came)])
    assert [one.to_openai() for one in sent[2:]] == [came]


_messages = st.one_of(
    st.builds(user),
    st.builds(lambda ids: asks(*map(call, ids)), st.lists(st.sampled_from(["", "a", "b"]))),
    st.builds(result, st.sampled_from(["", "a", "b", "c"])),
    st.builds(Message.assistant, st.sampled_from([None, "", "text"])),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_messages, max_size=12))
def test_any_context_at_all_is_repaired(context: list[Message]) -> None:
    sent = sendable([user(), *context])
    assert broken_rules([one.to_openai() for one in sent]) == []
    users = sum(one.role == "user" for one in context) + 1
    assert sum(one.role == "user" for one in sent) == users
    asked = sum(len(one.tool_calls) for one in context)
    assert sum(one.role == "tool" for one in sent) == asked


def test_every_cut_of_a_recorded_conversation_can_be_sent() -> None:
    file = Path(__file__).parents[3] / "examples/data/airline_conversations.jsonl"
    lines = file.read_text().splitlines()
    for line in itertools.islice(lines, 10):
        history = [Message.from_openai(one) for one in json.loads(line)["messages"]]
        for cut in range(len(history)):
            sent = sendable([*history[:cut], user("hi")])
            assert broken_rules([one.to_openai() for one in sent]) == []
