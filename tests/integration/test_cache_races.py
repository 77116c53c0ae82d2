"""Readers and writers that are slow, in every order: an older version is never put back."""

import asyncio
from typing import Any

import caches
import pytest
from servers import RedisServer
from turns import IDS, KEY, Cached, cached, read, said, texts, texts_in, turn, write

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import StaleStateError

redis = caches.redis
checkpointer = caches.checkpointer


class SlowReader:
    """A read that has seen the database and is held up before it writes back."""

    def __init__(self, url: str, behind: Cached) -> None:
        self.checkpointer = cached(url, behind)
        self._go = asyncio.Event()
        self._held = asyncio.Event()

    async def begin(self, ids: dict[str, Any] | None = None) -> None:
        load = self.checkpointer.durable.aget_state

        async def held(config: Any, version: int | None = None) -> Any:
            state = await load(config, version)
            self._held.set()
            await self._go.wait()
            return state

        self.checkpointer.durable.aget_state = held  # type: ignore[method-assign]
        self._task = asyncio.ensure_future(texts_in(self.checkpointer, ids))
        await self._held.wait()

    async def end(self) -> list[str] | None:
        self._go.set()
        result = await self._task
        await self.checkpointer.aclose()
        return result


async def _slow_reader(redis_server: RedisServer, behind: Cached) -> SlowReader:
    reader = SlowReader(redis_server.url(), behind)
    await reader.begin()
    return reader


async def test_after_a_newer_write(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    await turn(checkpointer, "a")
    redis.delete(KEY)
    reader = await _slow_reader(redis_server, checkpointer)
    await turn(checkpointer, "b")
    assert await reader.end() == said("a")
    assert await texts_in(checkpointer) == said("a", "b")
    assert redis.get(KEY).startswith(b'{"__checkpoint_version__":4,')


async def test_after_a_newer_write_whose_entry_has_been_dropped_by_a_conflict(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    await turn(checkpointer, "a")
    old = dict(IDS)
    state = await read(checkpointer, old)
    assert state is not None
    redis.delete(KEY)
    reader = await _slow_reader(redis_server, checkpointer)
    await turn(checkpointer, "b")
    with pytest.raises(StaleStateError) as caught:
        await checkpointer.aput_checkpoint(old, state)
    assert (caught.value.expected_version, caught.value.current_version) == (2, 4)
    assert redis.get(KEY) is None
    await reader.end()
    assert redis.get(KEY) is None, "not even where there is nothing newer to be seen"
    assert await texts_in(checkpointer) == said("a", "b")
    assert redis.get(KEY)


async def test_after_the_thread_was_deleted(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    await turn(checkpointer, "a")
    redis.delete(KEY)
    reader = await _slow_reader(redis_server, checkpointer)
    await checkpointer.aclean_thread(dict(IDS))
    await reader.end()
    assert redis.get(KEY) is None
    assert await texts_in(checkpointer) is None


async def test_after_the_thread_was_deleted_and_made_anew(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    for text in "abc":
        await turn(checkpointer, text)
    redis.delete(KEY)
    reader = await _slow_reader(redis_server, checkpointer)
    await checkpointer.aclean_thread(dict(IDS))
    await turn(checkpointer, "new")
    await reader.end()
    assert await texts_in(checkpointer) == said("new")


async def test_after_a_message_was_deleted(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    await turn(checkpointer, "a")
    redis.delete(KEY)
    reader = await _slow_reader(redis_server, checkpointer)
    state = await read(checkpointer, dict(IDS))
    assert state is not None
    await checkpointer.adelete_message(dict(IDS), state.context[0].message_id)
    await reader.end()
    assert await texts_in(checkpointer) == ["a, answered"]
    assert await texts_in(checkpointer) == ["a, answered"]


async def test_a_run_that_still_holds_a_deleted_message_does_not_cache_it(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    other = cached(redis_server.url(), checkpointer)
    await turn(checkpointer, "a")
    config = dict(IDS)
    state = await read(checkpointer, config)
    assert state is not None
    await other.adelete_message(dict(IDS), state.context[0].message_id)
    assert await texts_in(other) == ["a, answered"]
    await write(checkpointer, config, state)
    assert await texts_in(other) == ["a, answered"]
    await write(checkpointer, config, state)
    assert await texts_in(other) == ["a, answered"]
    await other.aclose()


async def test_a_refresh_that_comes_after_the_thread_was_deleted(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    other = cached(redis_server.url(), checkpointer)
    config = dict(IDS)
    state = await read(checkpointer, config) or AgentState()
    state.context = [Message.text_message("a")]
    await checkpointer.aput_checkpoint(config, state)
    await other.aclean_thread(dict(IDS))
    await checkpointer.aput_state_cache(config, state)
    assert redis.get(KEY) is None
    assert await texts_in(checkpointer) is None
    with pytest.raises(StaleStateError):
        await checkpointer.aput_checkpoint(config, state)
    await other.aclose()


async def test_an_older_refresh_after_a_newer_one(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    other = cached(redis_server.url(), checkpointer)
    await turn(checkpointer, "a")
    config = dict(IDS)
    state = await read(checkpointer, config)
    assert state is not None
    await checkpointer.aput_checkpoint(config, state)
    await turn(other, "b")
    await checkpointer.aput_state_cache(config, state)
    assert await texts_in(other) == said("a", "b")
    assert redis.get(KEY).startswith(b'{"__checkpoint_version__":5,')
    await other.aclose()


async def test_a_state_that_was_never_written_is_not_cached(
    checkpointer: Cached, redis: Any
) -> None:
    config = dict(IDS)
    await checkpointer.aput_state_cache(config, AgentState(context=[Message.text_message("x")]))
    assert redis.get(KEY) is None
    await turn(checkpointer, "a")
    await read(checkpointer, config)
    await checkpointer.aput_state_cache(config, AgentState(context=[Message.text_message("x")]))
    assert await texts_in(checkpointer) == said("a")


async def test_a_refused_write_leaves_the_cache_as_it_was(checkpointer: Cached, redis: Any) -> None:
    await turn(checkpointer, "a")
    value = redis.get(KEY)
    config = dict(IDS)
    state = await read(checkpointer, config)
    assert state is not None
    state.unstorable = object()  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="unstorable"):
        await checkpointer.aput_checkpoint(config, state)
    assert redis.get(KEY) == value


async def test_of_three_that_read_nothing_one_wins(checkpointer: Cached, redis: Any) -> None:
    configs = [dict(IDS) for _ in range(3)]
    for config in configs:
        assert await read(checkpointer, config) is None
    first, *others = configs
    await write(checkpointer, first, AgentState(context=[Message.text_message("first")]))
    assert redis.get(KEY)
    for config in others:
        with pytest.raises(StaleStateError) as caught:
            await checkpointer.aput_checkpoint(config, AgentState())
        assert (caught.value.expected_version, caught.value.current_version) == (0, 1)
        assert redis.get(KEY) is None
        assert await checkpointer.aget_state_cache(config) is None
        state = await checkpointer.aget_state(config)
        assert state is not None
        assert texts(state) == ["first"]
        assert redis.get(KEY), "healed"


async def test_the_winner_of_a_race_goes_on_caching(checkpointer: Cached, redis: Any) -> None:
    winner, loser = dict(IDS), dict(IDS)
    state = await read(checkpointer, winner) or AgentState()
    await read(checkpointer, loser)
    await write(checkpointer, winner, state)
    with pytest.raises(StaleStateError):
        await checkpointer.aput_checkpoint(loser, AgentState())
    await write(checkpointer, winner, state)
    assert redis.get(KEY).startswith(b'{"__checkpoint_version__":2,')


async def test_many_runs_at_once_lose_nothing(
    checkpointer: Cached, redis_server: RedisServer
) -> None:
    others = [cached(redis_server.url(), checkpointer, timeout=5) for _ in range(4)]

    async def talk(one: Cached, name: str) -> None:
        for i in range(15):
            while True:  # of those that have read one version one wins, so each gets its turn
                try:
                    await turn(one, f"{name}{i}")
                    break
                except StaleStateError:
                    continue

    await asyncio.gather(*(talk(one, f"{n}-") for n, one in enumerate(others)))
    found = await texts_in(others[0])
    assert found is not None
    assert sum(text.endswith("answered") for text in found) == 4 * 15
    assert found == texts(await checkpointer.durable.aget_state(dict(IDS)))
    for one in others:
        await one.aclose()


async def test_the_state_is_cached_by_whatever_writes_it(checkpointer: Cached, redis: Any) -> None:
    await checkpointer.aput_state(dict(IDS), AgentState(context=[Message.text_message("a")]))
    assert redis.get(KEY)
    await checkpointer.aclear_state(dict(IDS))
    assert redis.get(KEY) is None
    assert await texts_in(checkpointer) is None
    await checkpointer.aput_state(dict(IDS), AgentState(context=[Message.text_message("b")]))
    assert redis.get(KEY), "a write that has not read looks first"
    assert await texts_in(checkpointer) == ["b"]
    forked = await checkpointer.afork_thread(dict(IDS), "t2")
    assert await texts_in(checkpointer, forked) == ["b"]
    lines = [line async for line in checkpointer.aexport_thread(dict(IDS))]
    await checkpointer.aimport_thread({"thread_id": "t3", "user_id": "ada"}, lines)
    assert await texts_in(checkpointer, {"thread_id": "t3", "user_id": "ada"}) == ["b"]
