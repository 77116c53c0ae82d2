"""OpenAI's chat format in and out: what went in comes out, stored in between or not."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tenxgraph.core.state import (
    AgentState,
    AudioBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    UnknownBlock,
)
from tenxgraph.core.state.state_codec import StateCodec

RECORDED = Path(__file__).parents[2] / "examples" / "data" / "airline_conversations.jsonl"

codec = StateCodec(AgentState)


def recorded() -> list[dict[str, Any]]:
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return [message for line in lines for message in json.loads(line)["messages"]]


def test_all_recorded_messages_come_out_as_they_went_in() -> None:
    messages = recorded()
    assert len(messages) == 1_384
    for message in messages:
        assert Message.from_openai(message).to_openai() == message


def test_all_recorded_messages_survive_storage() -> None:
    sent = [Message.from_openai(message) for message in recorded()]
    read = codec.messages([codec.message_text(one) for one in sent])
    assert read == sent
    assert [one.to_openai() for one in read] == recorded()


PNG_URL = f"data:image/png;base64,{base64.b64encode(bytes.fromhex('89504e47')).decode()}"
WAV = base64.b64encode(b"RIFF").decode()

CHATS: dict[str, dict[str, Any]] = {
    "system": {"role": "system", "content": "Be kind."},
    "developer": {"role": "developer", "content": "Be kind."},
    "named user": {"role": "user", "content": "hi", "name": "ann"},
    "empty": {"role": "user", "content": ""},
    "no content": {"role": "assistant", "content": None},
    "refusal": {"role": "assistant", "content": None, "refusal": "I will not."},
    "calls": {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "c", "type": "function", "function": {"name": "g", "arguments": "{broken"}},
            {"id": "", "type": "function", "function": {"name": "h", "arguments": ""}},
        ],
    },
    "result": {"role": "tool", "tool_call_id": "c", "content": "42"},
    "named result": {"role": "tool", "tool_call_id": "c", "name": "f", "content": "42"},
    "parts": {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
            {"type": "file", "file": {"file_id": "f1"}},
            {"type": "file", "file": {"filename": "a.png", "file_data": PNG_URL}},
            {"type": "video_url", "video_url": {"url": "https://x/y.mp4"}},
        ],
    },
    "one part": {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
    "one text part": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    "no parts": {"role": "user", "content": []},
    "absent content": {"role": "assistant", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]},
    "cache control": {"role": "user", "content": [
        {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": PNG_URL, "cache_control": {}}, "x": None},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav", "y": 1}},
        {"type": "file", "file": {"file_id": "f1", "filename": None}, "cache_control": {}},
    ]},
    "files without a data URL": {"role": "user", "content": [
        {"type": "file", "file": {"filename": "a.txt", "file_data": WAV}},
        {"type": "file", "file": {"file_data": "https://x/a.pdf"}},
    ]},
    "odd base64": {"role": "user", "content": [
        {"type": "file", "file": {"file_data": "data:text/plain;charset=utf-8;base64,QQ=="}},
        {"type": "file", "file": {"file_data": "data:;base64,QQ"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,-_-_\r\n-_8="}},
        {"type": "input_audio", "input_audio": {"data": "UklG\nRg", "format": "wav"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ%3D%3D"}},
    ]},
    "a url instead of an object": {"role": "user", "content": [
        {"type": "image_url", "image_url": "https://x/y.png"},
        {"type": "image_url", "image_url": PNG_URL, "detail": "low"},
    ]},
    "keys of an answer": {
        "role": "assistant", "content": "hi", "refusal": None, "annotations": [{"a": 1}],
        "audio": None, "function_call": None, "tool_calls": None, "name": "ann",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
    },
    "reasoning content": {"role": "assistant", "content": "hi", "reasoning_content": "hm"},
    "reasoning twice": {
        "role": "assistant", "content": "hi", "reasoning_content": "hm", "reasoning": "hm",
    },
    "two kinds of reasoning": {
        "role": "assistant", "content": "hi", "reasoning_content": "", "reasoning": "(reasoning)",
    },
    "empty calls": {"role": "assistant", "content": "hi", "tool_calls": []},
    "calls with more": {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "index": 0, "extra_content": {"google": {"sig": "s"}},
         "function": {"name": "f", "arguments": "{}", "thought_signature": "t"}},
        {"id": "d", "type": "custom", "custom": {"name": "code", "input": "print(1)"}, "index": 1},
        {"id": "e", "type": "custom", "custom": {"name": "code", "input": '{"a": 1}'}},
        {"id": "f", "type": "mcp", "mcp": {"server": "s"}},
        {"id": "g", "type": "builtin_function", "function": {"name": "$web", "arguments": "{}"}},
    ]},
    "odd calls": {"role": "assistant", "content": None, "tool_calls": [
        {"function": {"name": "f", "arguments": {"a": [1]}}},
        {"id": None, "type": None, "function": {"name": None, "arguments": None}},
        {"id": 5, "type": "function", "function": None},
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"\ud800": 1}'}},
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}},
        None,
    ]},
    "result in parts": {"role": "tool", "tool_call_id": "c", "name": "f", "content": [
        {"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}},
    ]},
    "result in one part": {"role": "tool", "tool_call_id": "c", "content": [
        {"type": "text", "text": "a"},
    ]},
    "null result": {"role": "tool", "tool_call_id": None, "content": None},
    "structured result": {"role": "tool", "content": {"a": 1}, "name": None},
    "odd answer": {"role": "assistant", "content": {"text": "hi"}, "tool_calls": "none"},
    "named like our own": {"role": "user", "content": [
        {"type": "error"}, {"type": "error", "message": "m"}, {"type": "tool_call"},
        {"type": "reasoning", "text": 5}, {"type": "data"}, {"type": "tool_result", "call_id": 1},
        {"type": "image", "source": {"type": "base64", "data": "QQ=="}}, {"type": "audio"},
        {"type": "image", "url": "u"}, {"type": "document", "source": {"type": "url"}},
        {"type": "unknown", "raw": 1}, {"type": "unknown"}, {"type": "hologram", "raw": None},
    ]},
    "half surrogates": {"role": "user", "name": "\udfff", "content": [
        {"type": "\ud800", "\ud800": "\ud800"},
        {"type": "image_url", "image_url": {"url": "\ud800", "detail": "\ud800"}},
        {"type": "file", "file": {"filename": "\ud800.pdf", "file_id": "\ud800"}},
    ]},
    "marks of the codec": {"role": "user", "$t": "date", "content": [{"type": "x", "$t": "uuid"}]},
}  # fmt: skip


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS.keys())
def test_a_message_comes_out_as_it_went_in(chat: dict[str, Any]) -> None:
    message = Message.from_openai(chat)
    assert message.to_openai() == chat
    assert codec.messages([codec.message_text(message)])[0].to_openai() == chat


def test_the_parts_are_understood() -> None:
    text, _, image, audio, file, _, video = Message.from_openai(CHATS["parts"]).content
    assert text == TextBlock(text="look")
    assert image == ImageBlock(data=b"\x89PNG", media_type="image/png", detail="low")
    assert audio == AudioBlock(data=b"RIFF", media_type="audio/wav")
    assert file == DocumentBlock(file_id="f1")
    assert isinstance(video, UnknownBlock)


def test_the_calls_are_understood() -> None:
    first, second, _ = Message.from_openai(CHATS["calls"]).tool_calls
    assert (first.id, first.name, first.args) == ("c", "f", {"a": 1})
    assert (second.name, second.args, second.arguments) == ("g", {}, "{broken")


def test_the_clients_own_objects_are_taken_too() -> None:
    chat = pytest.importorskip("openai.types.chat")
    said = {**CHATS["calls"], "annotations": [], "reasoning_content": "hm"}
    answer = chat.ChatCompletionMessage.model_validate(said)
    message = Message.from_openai(answer)
    assert message.to_openai() == said
    assert message.reasoning == "hm"
    by_hand = {"role": "assistant", "content": None, "tool_calls": answer.tool_calls}
    assert Message.from_openai(by_hand).to_openai() == CHATS["calls"]


def test_words_stand_in_fields_and_are_kept_once() -> None:
    for key in ("reasoning_content", "reasoning"):
        message = Message.from_openai({"role": "assistant", "content": "hi", key: "hm" * 500})
        assert message.reasoning == "hm" * 500
        assert codec.message_text(message).count("hm" * 500) == 1
    result = Message.from_openai(CHATS["result in parts"])
    assert result.text() == "a"
    assert result.content[1] == ImageBlock(url="u")
    custom = Message.from_openai(CHATS["calls with more"]).tool_calls[2]
    assert (custom.type, custom.name, custom.args) == ("custom", "code", {})
    assert custom.arguments == '{"a": 1}'
    [call, *_] = Message.from_openai(CHATS["odd calls"]).tool_calls
    assert (call.type, call.id, call.args) == ("function", "", {"a": [1]})


@pytest.mark.parametrize(
    ("written", "decoded"),
    [
        ("+/8=", b"\xfb\xff"),
        ("-_8=", b"\xfb\xff"),
        ("-_8", b"\xfb\xff"),
        ("%2B/8%3D", b"\xfb\xff"),
        ("\r\n +/\n8=", b"\xfb\xff"),
        ("", b""),
    ],
)
def test_both_alphabets_of_base64_are_read(written: str, decoded: bytes) -> None:
    part = {"type": "input_audio", "input_audio": {"data": written, "format": "wav"}}
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{written}"}}
    message = Message.from_openai({"role": "user", "content": [part, url]})
    assert [getattr(block, "data", None) for block in message.content] == [decoded, decoded]
    assert message.to_openai()["content"] == [part, url]


MALFORMED: dict[str, Any] = {
    "`content[0]` must be an object, not text.": "hi",
    "`content[0]` must be an object, not null.": None,
    "`content[0].type` is missing.": {"text": "hi"},
    "`content[0].type` must be text, not a number.": {"type": 5},
    "`content[0].type` must be text, not a list.": {"type": []},
    "`content[0].text` is missing.": {"type": "text"},
    "`content[0].text` must be text, not null.": {"type": "text", "text": None},
    "`content[0].text` must be text, not an object.": {"type": "text", "text": {"value": "hi"}},
    "`content[0].image_url` is missing.": {"type": "image_url"},
    "`content[0].image_url` must be an object, not null.": {"type": "image_url", "image_url": None},
    "`content[0].image_url.url` is missing.": {"type": "image_url", "image_url": {}},
    "`content[0].image_url.url` must be text, not a number.": {
        "type": "image_url",
        "image_url": {"url": 5},
    },
    "`content[0].image_url.detail` must be text, not true.": {
        "type": "image_url",
        "image_url": {"url": "u", "detail": True},
    },
    "`content[0].image_url.url` must be base64, in which there is no '!'.": {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,!!!!"},
    },
    "`content[0].image_url` must be base64, and is cut short.": {
        "type": "image_url",
        "image_url": "data:image/png;base64,QUJDR",
    },
    "`content[0].input_audio` is missing.": {"type": "input_audio"},
    "`content[0].input_audio.format` is missing.": {
        "type": "input_audio",
        "input_audio": {"data": WAV},
    },
    "`content[0].input_audio.data` must be base64, in which there is no '='.": {
        "type": "input_audio",
        "input_audio": {"data": "QQ==QQ==", "format": "wav"},
    },
    "`content[0].file` must be an object, not text.": {"type": "file", "file": "f1"},
    "`content[0].file.file_id` must be text, not a number.": {
        "type": "file",
        "file": {"file_id": 1},
    },
    "`content[0].file.file_data` must be base64, in which there is no 'é'.": {
        "type": "file",
        "file": {"file_data": "data:text/plain;base64,é"},
    },
}


@pytest.mark.parametrize(("problem", "part"), MALFORMED.items(), ids=MALFORMED.keys())
def test_a_malformed_part_of_a_client_is_refused_by_name(problem: str, part: Any) -> None:
    for role in ("user", "system", "developer"):
        with pytest.raises(ValueError, match=re.escape(problem)):
            Message.from_openai({"role": role, "content": [part]})


@pytest.mark.parametrize("part", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_part_of_an_answer_is_kept(part: Any) -> None:
    for role, more in (("assistant", {}), ("tool", {"tool_call_id": "c"})):
        chat = {"role": role, **more, "content": [{"type": "text", "text": "hi"}, part]}
        message = Message.from_openai(chat)
        assert isinstance(message.content[1], UnknownBlock)
        assert message.text() == "hi"
        assert message.to_openai() == chat
        assert codec.messages([codec.message_text(message)]) == [message]


@pytest.mark.parametrize("content", [5, True, {"type": "text", "text": "hi"}])
def test_a_content_that_is_none_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match="`content` must be text or a list of parts, not"):
        Message.from_openai({"role": "user", "content": content})


@pytest.mark.parametrize("message", ["hi", None, 5, ["hi"]])
def test_what_is_no_object_is_refused(message: Any) -> None:
    with pytest.raises(ValueError, match="must be an object with a `role`, not"):
        Message.from_openai(message)


_CALL = {
    "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    ]
}

EDITS: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "the text of a part": (
        {"role": "user", "content": [{"type": "text", "text": "old", "cache_control": {}}]},
        lambda m: {"content": (m.content[0].model_copy(update={"text": "new"}),)},
        {"role": "user", "content": [{"type": "text", "text": "new", "cache_control": {}}]},
    ),
    "all of the content": (
        {"role": "developer", "content": [{"type": "text", "text": "old", "cache_control": {}}]},
        lambda _: {"content": (TextBlock(text="a"), TextBlock(text="b"))},
        {
            "role": "developer",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
    ),
    "an image behind an odd URL": (
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ", "x": 1}}
            ],
        },
        lambda m: {"content": (m.content[0].model_copy(update={"data": b"B"}),)},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,Qg==", "x": 1}}
            ],
        },
    ),
    "an image that was a text": (
        {"role": "user", "content": [{"type": "image_url", "image_url": "old"}]},
        lambda m: {"content": (m.content[0].model_copy(update={"url": "new"}),)},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "new"}}]},
    ),
    "a content that was absent": (
        {"role": "assistant", "refusal": "no"},
        lambda _: {"content": (TextBlock(text="new"),)},
        {"role": "assistant", "content": "new", "refusal": "no"},
    ),
    "a content that was no text": (
        {"role": "assistant", "content": {"text": "old"}},
        lambda _: {"content": (TextBlock(text="new"),)},
        {"role": "assistant", "content": "new"},
    ),
    "the result of a tool": (
        {"role": "tool", "tool_call_id": "c", "content": {"old": 1}},
        lambda _: {"content": (TextBlock(text="new"),)},
        {"role": "tool", "tool_call_id": "c", "content": "new"},
    ),
    "thoughts": (
        {"role": "assistant", "content": "hi", "reasoning": "old"},
        lambda _: {"reasoning": "new"},
        {"role": "assistant", "content": "hi", "reasoning": "new"},
    ),
    "no thoughts": (
        {"role": "assistant", "content": "hi", "reasoning_content": "old"},
        lambda _: {"reasoning": None},
        {"role": "assistant", "content": "hi"},
    ),
    "the role": (
        {"role": "developer", "content": "hi"},
        lambda _: {"role": "user"},
        {"role": "user", "content": "hi"},
    ),
    "calls": (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": None, "x": 1, "function": {"name": "f", "arguments": {"a": 1}}}],
        },
        lambda m: {
            "tool_calls": (m.tool_calls[0].model_copy(update={"id": "new", "args": {"b": 2}}),)
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "new",
                    "type": "function",
                    "x": 1,
                    "function": {"name": "f", "arguments": '{"b":2}'},
                }
            ],
        },
    ),
    "calls among which was something else": (
        {"role": "assistant", "content": "hi", "tool_calls": [None, {"id": "c", "type": "x"}]},
        lambda _: {"tool_calls": ()},
        {"role": "assistant", "content": "hi"},
    ),
}


@pytest.mark.parametrize(("chat", "edit", "sent"), EDITS.values(), ids=EDITS.keys())
def test_an_edit_wins_over_what_was_kept(
    chat: dict[str, Any], edit: Any, sent: dict[str, Any]
) -> None:
    message = Message.from_openai(chat)
    assert message.to_openai() == chat
    edited = message.model_copy(update=edit(message))
    assert edited.to_openai() == sent
    assert codec.messages([codec.message_text(edited)])[0].to_openai() == sent
    assert message.to_openai() == chat


def test_keys_that_a_server_refuses_can_be_left_out() -> None:
    chat = {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi", "cache_control": {}, "x": 1}],
        "reasoning_content": "hm",
        "annotations": [],
        "tool_calls": [
            {
                "id": "c",
                "type": "function",
                "extra_content": {},
                "function": {"name": "f", "arguments": "{}", "x": 1},
            }
        ],
    }
    omit = ("reasoning_content", "annotations", "cache_control", "extra_content", "x", "content")
    message = Message.from_openai(chat)
    assert message.to_openai(omit=omit) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "tool_calls": CHATS["absent content"]["tool_calls"],
    }
    assert message.to_openai() == chat


def test_a_written_message_belongs_to_the_caller() -> None:
    chat = {
        "role": "user",
        "content": [{"type": "x", "v": [1]}, {"type": "text", "text": "a", "c": {"d": []}}],
        "name": ["n"],
    }
    message = Message.from_openai(chat)
    written = message.to_openai()
    written["name"].append(1)
    written["content"][0]["v"].append(1)
    written["content"][1]["c"]["d"].append(1)
    assert message.to_openai() == chat


def parts(message: Message) -> list[Any]:
    """The parts of blocks that are all unknown."""
    unknown = [block for block in message.content if isinstance(block, UnknownBlock)]
    assert len(unknown) == len(message.content)
    return [block.part for block in unknown]


def test_a_part_named_like_a_block_of_ours_is_none() -> None:
    message = Message.from_openai(CHATS["named like our own"])
    assert parts(message) == CHATS["named like our own"]["content"]
    assert message.text() == ""


def test_blocks_that_are_made_by_hand_can_be_read_back() -> None:
    by_hand = UnknownBlock(type="error", level=5)
    assert by_hand.part == {"type": "error", "level": 5}
    message = Message(role="user", content=(by_hand, UnknownBlock(type="x", raw=1)))
    assert codec.messages([codec.message_text(message)]) == [message]


OLD_ROW = (
    '{"message_id":"m","role":"user","content":[{"type":"text","text":"hi"},%s],'
    '"tool_calls":[{"id":"c","name":"f","args":{},"arguments":""}],"raw":{"annotations":[]},'
    '"timestamp":"2024-01-02T00:00:00+00:00"}'
)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ('{"type":"error"}', {"type": "error"}),
        ('{"type":"tool_call","id":"c"}', {"type": "tool_call", "id": "c"}),
        ('{"type":"image","data":5}', {"type": "image", "data": 5}),
        ('{"type":"unknown","x":1}', {"type": "unknown", "x": 1}),
        ('{"type":"hologram","v":[1]}', {"type": "hologram", "v": [1]}),
    ],
)
def test_rows_of_before_are_read_even_if_a_block_is_damaged(block: str, part: Any) -> None:
    whole = OLD_ROW % '{"type":"text","text":"ho"}'
    read, other = codec.messages([OLD_ROW % block, whole])
    assert read.text() == "hi"
    assert isinstance(read.content[1], UnknownBlock)
    assert read.content[1].part == part
    assert read.to_openai()["content"][1] == part
    assert other.text() == "hi\nho"
    assert other.tool_calls == (ToolCall(id="c", name="f", arguments=""),)


def test_ordinary_messages_are_stored_as_before() -> None:
    def stored(chat: dict[str, Any]) -> Any:
        document = json.loads(codec.message_text(Message.from_openai(chat, message_id="m")))
        del document["timestamp"]
        return document

    assert stored({"role": "user", "content": "hi"}) == {
        "message_id": "m",
        "role": "user",
        "content": [{"type": "text", "text": "hi"}],
    }
    assert stored({"role": "assistant", "content": None, **_CALL}) == {
        "message_id": "m",
        "role": "assistant",
        "tool_calls": [{"id": "c", "name": "f", "args": {"a": 1}, "arguments": None}],
    }
    image = {"type": "image_url", "image_url": {"url": PNG_URL}}
    [block] = stored({"role": "user", "content": [image]})["content"]
    assert block.keys() == {"type", "url", "data", "media_type", "detail"}


def test_an_id_can_be_given() -> None:
    assert Message.from_openai(CHATS["system"], message_id="m").message_id == "m"


def test_a_role_that_is_none_is_refused() -> None:
    for chat in ({"role": "narrator", "content": "once"}, {"content": "hi"}, {}):
        with pytest.raises(ValidationError):
            Message.from_openai(chat)


def test_what_has_no_form_there_is_sent_as_text_or_left_out() -> None:
    message = Message(
        role="assistant",
        content=(ErrorBlock(message="it broke"), ToolCallBlock(call=ToolCall(name="f"))),
    )
    assert message.to_openai()["content"] == [{"type": "text", "text": "it broke"}]


def test_a_structured_result_is_sent_as_json() -> None:
    answer = Message.tool_message({"price": 1.5, "city": "Zürich"}, "c")
    assert json.loads(answer.to_openai()["content"]) == {"price": 1.5, "city": "Zürich"}
