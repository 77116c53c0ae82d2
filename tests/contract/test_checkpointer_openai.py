"""Conversations in OpenAI's format, stored, cached, exported, imported: to the letter."""

import functools
from typing import Any

import conversations
from backends import Checkpointer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from threads import config, present

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import InMemoryCheckpointer

_CONVERSATIONS = 1_000
_MESSAGES_OF_A_THREAD = 400


@functools.cache
def generated() -> list[dict[str, Any]]:
    """Return the messages of the conversations; making them takes longer than storing them."""
    chats: list[list[dict[str, Any]]] = []

    @settings(
        max_examples=_CONVERSATIONS // 4,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(conversations.conversations, min_size=4, max_size=4))
    def gather(made: list[list[dict[str, Any]]]) -> None:
        chats.extend(made)

    gather()
    assert len(chats) >= _CONVERSATIONS
    return [message for chat in chats for message in chat]


async def stored_and_read(checkpointer: Checkpointer, chat: list[dict[str, Any]]) -> None:
    mine = config()
    context = [Message.from_openai(one) for one in chat]
    await checkpointer.aput_checkpoint(mine, AgentState(context=context))
    state = present(await checkpointer.aget_state(mine))
    assert state.context == context
    assert [one.to_openai() for one in state.context] == chat
    listed = await checkpointer.alist_messages(mine)
    assert [one.to_openai() for one in listed] == chat
    lines = [line async for line in checkpointer.aexport_thread(mine)]
    other = InMemoryCheckpointer[AgentState]()
    await other.aimport_thread({"user_id": "u"}, lines)
    imported = present(await other.aget_state(mine))
    assert [one.to_openai() for one in imported.context] == chat
    await checkpointer.aclean_thread(mine)


async def test_conversations_come_out_of_every_backend_to_the_letter(
    checkpointer: Checkpointer,
) -> None:
    messages = generated()
    for start in range(0, len(messages), _MESSAGES_OF_A_THREAD):
        await stored_and_read(checkpointer, messages[start : start + _MESSAGES_OF_A_THREAD])
