"""The one system message that a model is sent, whatever it is made of."""

from collections.abc import Iterator
from typing import Any

import pytest
from graphs import config

from tenxgraph.core.state import Message
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.store import BaseStore, MemoryConfig
from tenxgraph.storage.store.memory import InMemoryStore
from tenxgraph.testing import HashEmbedding, OpenAIServer

POSTLOAD = "You have a long-term memory of each user."
PRELOAD = "From long-term memory. These are notes"
CACHED = {"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral"}}


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


async def sent(
    server: OpenAIServer, *, mode: str | None = None, messages: Any = "tea?", **options: Any
) -> list[dict[str, Any]]:
    """The messages of a request."""
    store: BaseStore = InMemoryStore(HashEmbedding())
    await store.astore({"user_id": "u"}, "likes tea")
    memory = None if mode is None else MemoryConfig(store=store, retrieval_mode=mode)
    server.add_answers("ok")
    agent = ReactAgent("m", base_url=server.base_url, api_key="k", memory=memory, **options)
    async with agent.compile() as app:
        await app.ainvoke({"messages": messages}, config())
    body: list[dict[str, Any]] = server.requests[-1].body["messages"]
    return body


PROMPTS: list[Any] = [
    None,
    "",
    "Be brief.",
    ["Be brief.", "Be kind."],
    [{"role": "system", "content": "Be brief."}, Message.text_message("Be kind.", role="system")],
    [{"role": "developer", "content": "Be brief."}, "Be kind."],
    [{"role": "system", "content": [CACHED]}, "Be kind."],
]


@pytest.mark.parametrize("mode", [None, "postload", "preload", "no_retrieval"])
@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
async def test_exactly_one_system_message_is_sent(
    server: OpenAIServer, prompt: Any, mode: str | None
) -> None:
    messages = await sent(server, mode=mode, system_prompt=prompt)
    first, *others = messages
    told = mode in ("postload", "preload")
    if not prompt and not told:
        assert messages == [{"role": "user", "content": "tea?"}]
        return
    assert others == [{"role": "user", "content": "tea?"}]
    assert first["role"] in ("system", "developer")
    text = str(first["content"])
    assert ("Be brief." in text, "Be kind." in text) == (
        "brief" in str(prompt),
        "kind" in str(prompt),
    )
    assert (POSTLOAD in text, PRELOAD in text) == (mode == "postload", mode == "preload")


async def test_texts_are_joined_by_a_blank_line(server: OpenAIServer) -> None:
    first, _ = await sent(server, mode="preload", system_prompt=["Be brief.", "Be kind."])
    assert first["content"].startswith(f"Be brief.\n\nBe kind.\n\n{PRELOAD}")
    assert first["content"].endswith("- likes tea")


async def test_parts_are_joined_as_parts(server: OpenAIServer) -> None:
    parts = [{"type": "text", "text": "Long."}, {"type": "text", "text": "Longer."}]
    prompt = [{"role": "system", "content": parts}, "Be kind."]
    first, _ = await sent(server, mode="preload", system_prompt=prompt)
    texts = [part["text"] for part in first["content"]]
    assert texts[:3] == ["Long.", "Longer.", "Be kind."]
    assert texts[3].startswith(PRELOAD)


async def test_developer_stays_developer(server: OpenAIServer) -> None:
    prompt = [{"role": "developer", "content": "Be brief."}]
    first, _ = await sent(server, mode="postload", system_prompt=prompt)
    assert first["role"] == "developer"


async def test_examples_of_a_prompt_follow_its_system_message(server: OpenAIServer) -> None:
    prompt = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "2"},
        {"role": "system", "content": "Be kind."},
    ]
    messages = await sent(server, mode="preload", system_prompt=prompt)
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "user"]


async def test_system_messages_of_the_context_join_at_its_start_and_stay_inside(
    server: OpenAIServer,
) -> None:
    context = [
        Message.text_message("You speak Danish.", role="system"),
        Message.text_message("hi"),
        Message.text_message("The user has paid.", role="system"),
        Message.text_message("tea?"),
    ]
    messages = await sent(server, mode="postload", messages=context, system_prompt="Be brief.")
    assert [one["role"] for one in messages] == ["system", "user", "system", "user"]
    assert messages[0]["content"].startswith("Be brief.")
    assert messages[0]["content"].endswith("You speak Danish.")
    assert messages[2]["content"] == "The user has paid."
