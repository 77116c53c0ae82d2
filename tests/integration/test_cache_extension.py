"""A refresh sends what is new. Where Redis holds anything else than is thought, it sends it all."""

from typing import Any

import caches
import pytest
from redis import Redis
from servers import RedisServer
from turns import IDS, KEY, Cached, read, texts

from tenxgraph.core.state import AgentState, Message

LONG = "x" * 10_000

redis = caches.redis
checkpointer = caches.checkpointer


async def write(checkpointer: Cached, config: dict[str, Any], state: AgentState, text: str) -> None:
    """One more message, written as the run loop writes it."""
    state.context = [*state.context, Message.text_message(text)]
    await checkpointer.aput_checkpoint(config, state)
    await checkpointer.aput_state_cache(config, state)


def received(redis: Redis) -> int:
    """How many bytes Redis has been sent so far."""
    return int(redis.info("stats")["total_net_input_bytes"])


async def test_a_refresh_sends_what_is_new_and_not_what_is_there(
    checkpointer: Cached, redis: Redis
) -> None:
    config, state = dict(IDS), AgentState()
    for _ in range(50):
        await write(checkpointer, config, state, LONG)
    before = received(redis)
    for i in range(20):
        await write(checkpointer, config, state, f"short {i}")
    assert received(redis) - before < 20 * 4_000  # of a value of half a megabyte
    hit = await read(checkpointer, dict(IDS))
    assert texts(hit) == [message.text() for message in state.context]
    assert redis.ttl(KEY) > 0


async def test_the_extended_value_is_what_a_whole_one_would_be(
    redis_server: RedisServer, checkpointer: Cached, redis: Redis
) -> None:
    config, state = dict(IDS), AgentState()
    for i in range(12):  # past the version of two digits, and of ever longer fields
        state.context_summary = "s" * (60 * i)
        await write(checkpointer, config, state, f"message {i}")
    extended = redis.get(KEY)
    redis.delete(KEY)
    fresh = dict(IDS)
    assert await checkpointer.aget_state(fresh) == state  # reads the database and writes it back
    assert redis.get(KEY) == extended


@pytest.mark.parametrize("harm", ["gone", "another type", "cut", "longer", "another opening"])
async def test_a_value_that_is_not_what_was_left_is_written_whole(
    harm: str, checkpointer: Cached, redis: Redis
) -> None:
    config, state = dict(IDS), AgentState()
    for i in range(3):
        await write(checkpointer, config, state, f"message {i}")
    value = redis.get(KEY)
    assert isinstance(value, bytes)
    redis.delete(KEY)
    if harm == "another type":
        redis.rpush(KEY, "a", "b")
    elif harm != "gone":
        changed = {
            "cut": value[:-4],
            "longer": value + b" ",
            "another opening": value.replace(b"completed", b"cOmpleted"),
        }
        redis.set(KEY, changed[harm])
    await write(checkpointer, config, state, "the next")
    left = redis.get(KEY)
    hit = await read(checkpointer, dict(IDS))
    assert texts(hit) == ["message 0", "message 1", "message 2", "the next"]
    redis.delete(KEY)
    await checkpointer.aget_state(dict(IDS))  # reads the database and writes the whole value
    assert left == redis.get(KEY)


async def test_an_older_version_with_the_same_messages_does_not_come_back(
    checkpointer: Cached, redis: Redis
) -> None:
    config, state = dict(IDS), AgentState()
    await write(checkpointer, config, state, "one")
    late_config, late = dict(config), state.model_copy(deep=True)
    state.context_summary = "newer"
    await checkpointer.aput_checkpoint(config, state)
    await checkpointer.aput_state_cache(config, state)
    await checkpointer.aput_state_cache(late_config, late)  # a slow writer of version 1
    hit = await read(checkpointer, dict(IDS))
    assert hit is not None
    assert hit.context_summary == "newer"
