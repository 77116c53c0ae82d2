"""Any message in OpenAI's format comes out as it went in, stored in between or not."""

import json
from typing import Any

import conversations
from hypothesis import HealthCheck, given, settings

from tenxgraph.core.graph.repair import sendable
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.testing import broken_rules

codec = StateCodec(AgentState)
thoroughly = settings(
    max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@thoroughly
@given(conversations.conversations)
def test_a_conversation_comes_out_as_it_went_in_and_as_it_was_stored(
    chat: list[dict[str, Any]],
) -> None:
    before = json.dumps(chat)
    sent = [Message.from_openai(one) for one in chat]
    assert [one.to_openai() for one in sent] == chat
    assert json.dumps(chat) == before, "the dicts that were read are left as they were"
    read = codec.messages([codec.message_text(one) for one in sent])
    assert read == sent
    assert [one.to_openai() for one in read] == chat


@thoroughly
@given(conversations.conversations)
def test_messages_for_a_provider_are_read_and_written_the_same(chat: list[dict[str, Any]]) -> None:
    context = [Message.text_message("hi"), *map(Message.from_openai, chat)]
    sent = sendable(context)
    assert broken_rules([one.to_openai() for one in sent]) == []
    again = [Message.from_openai(one.to_openai()) for one in sent]
    assert [one.to_openai() for one in again] == [one.to_openai() for one in sent]
