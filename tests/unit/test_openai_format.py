"""OpenAI's chat format in and out: what went in comes out, stored in between or not."""

import base64
import json
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
    answer = chat.ChatCompletionMessage.model_validate(
        {**CHATS["calls"], "annotations": [], "reasoning_content": "hm"}
    )
    message = Message.from_openai(answer)
    assert message.to_openai() == CHATS["calls"]
    assert message.raw["reasoning_content"] == "hm"


def test_what_only_an_answer_has_is_kept_and_not_sent_back() -> None:
    message = Message.from_openai({"role": "assistant", "content": "hi", "annotations": [1]})
    assert message.raw == {"annotations": [1]}
    assert message.to_openai() == {"role": "assistant", "content": "hi"}


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
