"""Messages and their blocks are values: immutable, comparable, checked when they are made."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tenxgraph.core.state import (
    AgentState,
    AudioBlock,
    DataBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    TokenUsages,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    UnknownBlock,
)
from tenxgraph.core.state.state_codec import StateCodec

codec = StateCodec(AgentState)

BLOCKS = (
    TextBlock(text="hello"),
    ImageBlock(url="https://x/y.png", detail="low"),
    ImageBlock(data=b"\x89PNG", media_type="image/png"),
    AudioBlock(data=b"\x00\xff", media_type="audio/wav", transcript="hm"),
    DocumentBlock(file_id="f1", name="a.pdf"),
    DataBlock(data={"when": datetime(2024, 1, 2, tzinfo=UTC), "rows": [[1, 2]]}),
    ToolCallBlock(call=ToolCall(id="c1", name="f", args={"a": [1]})),
    ToolResultBlock(call_id="c1", name="f", output={"ok": True}, is_error=False),
    ReasoningBlock(text="let me see", signature="sig"),
    ErrorBlock(message="it broke", code="E1"),
    UnknownBlock(type="hologram", depth=3, layers=[{"a": 1}]),
)


def back(message: Message) -> Message:
    return codec.messages([codec.message_text(message)])[0]


def test_every_kind_of_block_comes_back() -> None:
    sent = Message(
        role="assistant",
        content=BLOCKS,
        tool_calls=(ToolCall(id="c1", name="f"), ToolCall(name="g", arguments="{broken")),
        tool_call_id="",
        reasoning="because",
        metadata={"a": {"b": [1]}},
        usages=TokenUsages(prompt_tokens=1, total_tokens=1),
        raw={"id": "x"},
    )
    read = back(sent)
    assert read == sent
    assert [type(block) for block in read.content] == [type(block) for block in BLOCKS]


@given(st.text(st.characters()), st.sampled_from(["user", "assistant", "system", "tool"]))
def test_any_text_comes_back(text: str, role: Any) -> None:
    sent = Message.text_message(text, role)
    assert back(sent) == sent
    assert back(sent).text() == text


@pytest.mark.parametrize("empty", [{}, [], "", 0, False, 0.0])
def test_what_is_empty_is_not_what_is_missing(empty: Any) -> None:
    sent = Message(role="user", raw=empty, tool_call_id="", reasoning="")
    read = back(sent)
    assert (read.raw, read.tool_call_id, read.reasoning) == (empty, "", "")
    assert type(read.raw) is type(sent.raw)


def test_a_message_is_encoded_once_in_its_life() -> None:
    sent = Message.text_message("hi")
    assert codec.message_text(sent) is codec.message_text(sent)
    read = back(sent)
    assert codec.message_text(read) == codec.message_text(sent)


def test_an_edited_copy_is_encoded_anew() -> None:
    sent = Message.text_message("hi")
    codec.message_text(sent)
    edited = sent.model_copy(update={"content": (TextBlock(text="ho"),)})
    assert edited.message_id == sent.message_id
    assert back(edited).text() == "ho"
    assert back(sent).text() == "hi"


def test_whether_it_is_stored_takes_no_part_in_equality() -> None:
    sent = Message.text_message("hi", message_id="m")
    twin = sent.model_copy()
    codec.message_text(sent)
    assert sent == twin
    assert back(sent) == sent


CHANGES = {
    "field": lambda m: setattr(m, "role", "system"),
    "metadata": lambda m: m.metadata.update(a=2),
    "inside metadata": lambda m: m.metadata["list"].append(2),
    "key": lambda m: m.metadata.__setitem__("b", 1),
    "args": lambda m: m.tool_calls[0].args.pop("a"),
    "raw": lambda m: m.raw["list"].sort(),
    "block": lambda m: setattr(m.content[0], "text", "x"),
    "unknown block": lambda m: m.content[1].layers.clear(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_message_cannot_be_changed(change: Any) -> None:
    sent = Message(
        role="user",
        content=(TextBlock(text="hi"), UnknownBlock(type="x", layers=[1])),
        tool_calls=(ToolCall(name="f", args={"a": 1}),),
        metadata={"a": 1, "list": [1]},
        raw={"list": [2, 1]},
    )
    before = sent.model_dump()
    with pytest.raises((ValidationError, TypeError), match=r"frozen|immutable"):
        change(sent)
    assert sent.model_dump() == before


def test_the_makers_own_dicts_are_not_part_of_the_message() -> None:
    metadata: dict[str, Any] = {"list": [1]}
    sent = Message(role="user", metadata=metadata, content=(DataBlock(data=metadata),))
    metadata["list"].append(2)
    assert sent.metadata == {"list": [1]}
    assert sent.content == (DataBlock(data={"list": [1]}),)


def test_copies_are_equal_and_as_immutable() -> None:
    sent = Message(role="user", metadata={"a": [1]}, raw={"b": {"c": 1}})
    for twin in (copy.copy(sent), copy.deepcopy(sent), sent.model_copy(deep=True)):
        assert twin == sent
        with pytest.raises(TypeError, match="immutable"):
            twin.metadata["a"].append(2)


def test_an_edited_copy_is_checked_like_a_new_message() -> None:
    sent = Message.text_message("hi")
    with pytest.raises(ValidationError):
        sent.model_copy(update={"role": "nobody"})
    with pytest.raises(TypeError, match="immutable"):
        sent.model_copy(update={"metadata": {"a": [1]}}).metadata["a"].append(2)
    with pytest.raises(ValidationError):
        TextBlock(text="hi").model_copy(update={"text": None})
    with pytest.raises(ValidationError):
        ToolCall(name="f").model_copy(update={"args": [1]})


def test_what_is_kept_of_a_block_or_call_is_immutable_and_part_of_the_value() -> None:
    for value in (TextBlock(text="hi", raw={"a": [1]}), ToolCall(name="f", raw={"a": [1]})):
        with pytest.raises(TypeError, match="immutable"):
            value.raw["a"].append(2)
        assert value.raw == {"a": [1]}
        assert value != value.model_copy(update={"raw": {"a": []}})
        assert copy.deepcopy(value) == value
    assert TextBlock(text="hi").raw is None
    assert TextBlock(text="hi").model_dump() == {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    "bad",
    [
        {"message_id": ""},
        {"message_id": "x" * 256},
        {"message_id": "a\x00b"},
        {"message_id": "\ud800"},
        {"role": "nobody"},
        {"timestamp": datetime(2024, 1, 2)},
        {"content": 5},
        {"content": ({"text": "no type"},)},
    ],
)
def test_what_is_no_message_cannot_be_made(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Message(**{"role": "user", **bad})


def test_every_message_has_an_id_of_its_own() -> None:
    assert len({Message.text_message("hi").message_id for _ in range(100)}) == 100


def test_text_is_all_that_is_said_in_words() -> None:
    assert Message(role="assistant", content=BLOCKS).text() == 'hello\n{"ok": true}\nit broke'
    assert Message(role="user").text() == ""
    assert Message.tool_message("plain", "c1").text() == "plain"
    assert Message.tool_message({"n": 1}, "c1").text() == '{"n": 1}'
    assert Message.tool_message([TextBlock(text="a"), TextBlock(text="b")], "c1").text() == "a\nb"


def test_a_tool_message_says_which_call_it_answers() -> None:
    answer = Message.tool_message("no", "c1", name="f", is_error=True, message_id="m")
    assert (answer.role, answer.tool_call_id, answer.message_id) == ("tool", "c1", "m")
    [block] = answer.content
    assert isinstance(block, ToolResultBlock)
    assert (block.call_id, block.name, block.is_error) == ("c1", "f", True)


def test_arguments_are_kept_to_the_letter() -> None:
    for arguments in ('{"a":1}', '{"a": 1}', "{}", "", "{broken", "[1]", '{"é":"\\u00e9"}'):
        call = ToolCall.from_arguments(id=None, name="f", arguments=arguments)
        assert call.arguments_text() == arguments
        sent = Message.assistant(tool_calls=[call])
        assert back(sent).tool_calls[0].arguments_text() == arguments
    assert ToolCall.from_arguments(id=None, name="f", arguments="{broken").args == {}


def test_tokens_add_up() -> None:
    one = TokenUsages(prompt_tokens=1, completion_tokens=2, total_tokens=3, cached_tokens=4)
    assert one + one == TokenUsages(
        prompt_tokens=2, completion_tokens=4, total_tokens=6, cached_tokens=8
    )


@pytest.mark.parametrize("output", [10**5000, {"n": [10**5000]}], ids=["alone", "inside"])
def test_an_output_that_python_does_not_write_out_makes_no_turn_fail(output: Any) -> None:
    message = Message.tool_message(output, "a")
    assert message.text() == message.to_openai()["content"]
    assert "0x" in message.text()


@pytest.mark.parametrize(
    "value",
    [10**5000, datetime(2026, 1, 1), {1}, b"x", float("nan")],
    ids=["int", "datetime", "set", "bytes", "nan"],
)
def test_arguments_that_json_cannot_hold_are_told_in_words(value: Any) -> None:
    call = ToolCall(name="t", args={"n": value})
    assert list(json.loads(call.arguments_text())) == ["n"]


def test_an_edited_call_is_sent_with_its_new_arguments() -> None:
    written = {"name": "pay", "arguments": '{"amount": 5000}'}
    said = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "function", "function": written}],
    }
    message = Message.from_openai(said)
    assert message.to_openai()["tool_calls"][0]["function"] == written
    (call,) = message.tool_calls
    edited = message.model_copy(
        update={"tool_calls": [call.model_copy(update={"args": {"amount": 5}})]}
    )
    sent = edited.to_openai()["tool_calls"][0]["function"]
    assert json.loads(sent["arguments"]) == {"amount": 5}
    renamed = call.model_copy(update={"name": "refund"})
    assert renamed.arguments_text() == written["arguments"]
