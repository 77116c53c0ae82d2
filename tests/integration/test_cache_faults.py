"""Redis in every bad condition: runs go on, nothing stale wins, nothing is lost."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from servers import RedisServer, TcpProxy
from servers.process import wait_until
from turns import IDS, KEY, Cached, cached, read, said, texts_in, turn, write

from tenxgraph.core.graph import END, StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.cache import RedisCache
from tenxgraph.storage.checkpointer import (
    CachedCheckpointer,
    InMemoryCheckpointer,
    StaleStateError,
)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as started:
        yield started


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[TcpProxy]:
    with TcpProxy("127.0.0.1", server.port) as started:
        yield started


@pytest.fixture
async def checkpointer(server: RedisServer) -> AsyncIterator[Cached]:
    made = cached(server.url())
    yield made
    await made.aclose()


async def _goes_on(checkpointer: Cached, *before: str) -> None:
    for text in ("b", "c", "d"):
        await turn(checkpointer, text)
    assert await texts_in(checkpointer) == said(*before, "b", "c", "d")


def _logged(caplog: pytest.LogCaptureFixture, words: str) -> int:
    return sum(words in record.getMessage() for record in caplog.records)


async def test_refused(
    server: RedisServer, checkpointer: Cached, caplog: pytest.LogCaptureFixture
) -> None:
    await turn(checkpointer, "a")
    server.stop()
    await _goes_on(checkpointer, "a")
    assert checkpointer.cache_stats.errors >= 3
    assert _logged(caplog, "fails") == 1
    server.start()
    checkpointer._cache._breaker._next_attempt = 0.0
    await _goes_on(checkpointer, "a", "b", "c", "d")
    assert _logged(caplog, "is back") == 1
    assert checkpointer.cache_stats.hits > 0
    assert all(record.levelno == logging.WARNING for record in caplog.records)


async def test_never_there(caplog: pytest.LogCaptureFixture) -> None:
    checkpointer = cached("redis://nohost.invalid:6379/0")
    await checkpointer.asetup()
    await _goes_on(checkpointer)
    assert _logged(caplog, "fails") == 1
    await checkpointer.aclose()


async def test_hanging_costs_at_most_the_timeout(server: RedisServer) -> None:
    checkpointer = cached(server.url(), timeout=0.1)
    await turn(checkpointer, "a")
    server.pause()
    try:
        began = time.monotonic()
        await read(checkpointer, dict(IDS))
        # The look into the cache; the read of the database does not look once more.
        assert time.monotonic() - began < 0.35
        await _goes_on(checkpointer, "a")
        began = time.monotonic()
        for _ in range(20):
            await turn(checkpointer, "e")
        assert time.monotonic() - began < 1, "the breaker is open"
    finally:
        server.resume()
    await asyncio.sleep(0.1)
    assert await texts_in(checkpointer) == said("a", "b", "c", "d", *["e"] * 20)
    await checkpointer.aclose()


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("through_the_cache", [True, False])
async def test_a_hanging_redis_costs_a_read_one_wait(
    connected: bool, through_the_cache: bool, server: RedisServer
) -> None:
    first = cached(server.url(), timeout=0.1)
    await turn(first, "a")
    checkpointer = first if connected else cached(server.url(), first, timeout=0.1)
    before = checkpointer.cache_stats.errors
    server.pause()
    try:
        mine = dict(IDS)
        if through_the_cache:
            await checkpointer.aget_state_cache(mine)
        assert await checkpointer.aget_state(mine) is not None
        assert checkpointer.cache_stats.errors - before == 1
    finally:
        server.resume()
    assert await texts_in(checkpointer) == said("a")
    for one in {first, checkpointer}:
        await one.aclose()


async def test_a_read_only_replica(caplog: pytest.LogCaptureFixture) -> None:
    with (
        RedisServer(config={"repl-diskless-sync-delay": 0}) as server,
        RedisServer(config={"replicaof": f"127.0.0.1 {server.port}"}) as replica,
    ):
        first = cached(server.url())
        await turn(first, "a")
        client = Redis.from_url(replica.url())
        wait_until(lambda: client.get(KEY) is not None, "replication")
        checkpointer = cached(replica.url(), first)
        assert await texts_in(checkpointer) == said("a")
        assert checkpointer.cache_stats.hits == 1, "it can be read"
        await _goes_on(checkpointer, "a")
        assert "ReadOnlyError" in caplog.text
        assert _logged(caplog, "fails") == 1
        client.close()
        await checkpointer.aclose()
        await first.aclose()


async def test_out_of_memory_the_old_entry_goes() -> None:
    with RedisServer(config={"maxmemory-policy": "noeviction"}) as server:
        checkpointer = cached(server.url())
        other = cached(server.url(), checkpointer)
        await turn(checkpointer, "a")
        client = Redis.from_url(server.url())
        assert client.get(KEY)
        client.config_set("maxmemory", "1kb")
        await turn(checkpointer, "b")
        assert checkpointer.cache_stats.errors > 0
        assert client.get(KEY) is None, "removing needs no memory"
        await _goes_on(other, "a", "b")
        client.close()
        await checkpointer.aclose()
        await other.aclose()


async def test_a_wrong_password(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer(password="right") as server:
        checkpointer = cached(server.url().replace(":right@", ":wr0ng-secret@"))
        await _goes_on(checkpointer)
        assert _logged(caplog, "fails") == 1
        assert "wr0ng-secret" not in caplog.text + repr(checkpointer)
        await checkpointer.aclose()


async def test_restarted_with_old_data(tmp_path: Path) -> None:
    with RedisServer(data_dir=tmp_path) as server:
        checkpointer = cached(server.url())
        other = cached(server.url(), checkpointer)
        await turn(checkpointer, "a")
        assert await texts_in(other) == said("a")
        server.stop()
        await turn(checkpointer, "b")
        server.start()
        client = Redis.from_url(server.url())
        assert client.get(KEY), "as it was before"
        # This process knows what it could not tell Redis; the other, that it had lost touch.
        assert await texts_in(other) == said("a", "b")
        assert await texts_in(checkpointer) == said("a", "b")
        await _goes_on(other, "a", "b")
        await _goes_on(checkpointer, "a", "b", "b", "c", "d")
        client.close()
        await checkpointer.aclose()
        await other.aclose()


async def test_a_process_that_knows_of_no_outage_heals_by_conflict(tmp_path: Path) -> None:
    with RedisServer(data_dir=tmp_path) as server:
        checkpointer = cached(server.url())
        await turn(checkpointer, "a")
        server.stop()
        await turn(checkpointer, "b")
        server.start()
        stranger = cached(server.url(), checkpointer)
        config = dict(IDS)
        stale = await read(stranger, config)
        assert stale is not None
        assert stranger.cache_stats.hits == 1
        with pytest.raises(StaleStateError):
            await stranger.aput_checkpoint(config, stale)
        assert await stranger.aget_state_cache(config) is None, "past the cache"
        await _goes_on(stranger, "a", "b")
        checked = cached(server.url(), checkpointer, verify_cached_version=True)
        assert await texts_in(checked) == said("a", "b", "b", "c", "d")
        for one in (checkpointer, stranger, checked):
            await one.aclose()


async def test_what_redis_was_not_told_it_is_told_when_it_is_back(tmp_path: Path) -> None:
    with RedisServer(data_dir=tmp_path) as server:
        checkpointer = cached(server.url())
        await turn(checkpointer, "a")
        server.stop()
        await checkpointer.aclean_thread(dict(IDS))
        server.start()
        client = Redis.from_url(server.url())
        await asyncio.to_thread(wait_until, lambda: client.get(KEY) is None, "the drop")
        assert client.get(KEY) is None, "without anybody asking for the thread"
        client.close()
        await checkpointer.aclose()


async def test_a_cancelled_refresh_leaves_nothing_old(server: RedisServer, proxy: TcpProxy) -> None:
    # The application's own client, whose lost connections the cache does not see.
    client = AsyncRedis.from_url(proxy.through(server.url()))
    checkpointer: Cached = CachedCheckpointer(
        InMemoryCheckpointer(), RedisCache(client=client, timeout=5)
    )
    await turn(checkpointer, "a")
    config = dict(IDS)
    state = await read(checkpointer, config)
    assert state is not None
    state.context = [*state.context, Message.text_message("b")]
    await checkpointer.aput_checkpoint(config, state)
    proxy.freeze()
    refresh = asyncio.ensure_future(checkpointer.aput_state_cache(config, state))
    await asyncio.sleep(0.1)
    refresh.cancel()
    with pytest.raises(asyncio.CancelledError):
        await refresh
    proxy.cut()  # what was sent never arrives: Redis still holds the state before "b"
    proxy.thaw()
    assert await texts_in(checkpointer) == [*said("a"), "b"]
    await checkpointer.aclose()
    await client.aclose()


async def test_flushed_in_the_middle_of_a_run(server: RedisServer, checkpointer: Cached) -> None:
    client = Redis.from_url(server.url())

    def flush(state: AgentState) -> str:
        client.flushall()
        client.script_flush()
        return "flushed"

    graph = StateGraph(AgentState)
    graph.add_node("flush", flush)
    graph.set_entry_point("flush")
    graph.add_edge("flush", END)
    app = graph.compile(checkpointer=checkpointer)
    for i in range(3):
        await app.ainvoke({"messages": [Message.text_message(f"{i}")]}, config=dict(IDS))
    assert await texts_in(checkpointer) == ["0", "flushed", "1", "flushed", "2", "flushed"]
    assert checkpointer.cache_stats.errors == 0
    assert checkpointer.cache_stats.hits >= 2
    client.close()


async def test_runs_go_on_through_a_stop_and_a_start(
    server: RedisServer, checkpointer: Cached
) -> None:
    def stop(state: AgentState) -> str:
        server.stop()
        return "stopped"

    def start(state: AgentState) -> str:
        server.start()
        return "started"

    graph = StateGraph(AgentState)
    graph.add_node("stop", stop)
    graph.add_node("start", start)
    graph.set_entry_point("stop")
    graph.add_edge("stop", "start")
    graph.add_edge("start", END)
    app = graph.compile(checkpointer=checkpointer)
    for i in range(3):
        await app.ainvoke({"messages": [Message.text_message(f"{i}")]}, config=dict(IDS))
    assert (await texts_in(checkpointer) or [])[-3:] == ["2", "stopped", "started"]


async def test_evicting_at_random_under_load() -> None:
    limits: dict[str, str | int] = {"maxmemory-policy": "allkeys-random", "maxmemory-samples": 1}
    with RedisServer(maxmemory="16mb", config=limits) as server:
        checkpointer = cached(server.url(), timeout=5)
        client = Redis.from_url(server.url())

        async def talk(name: str) -> None:
            ids = {"thread_id": name, "user_id": "ada"}
            for i in range(6):
                await turn(checkpointer, f"{i} {'x' * 50_000}", ids)
            found = await texts_in(checkpointer, ids)
            assert found is not None
            assert [text.split()[0] for text in found] == [f"{i}" for i in range(6) for _ in "qa"]

        await asyncio.gather(*(talk(f"t{i}") for i in range(20)))
        assert client.info("stats")["evicted_keys"] > 0
        assert checkpointer.cache_stats.hits > 0
        client.close()
        await checkpointer.aclose()


async def test_no_key_lives_for_ever(server: RedisServer) -> None:
    checkpointer = cached(server.url(), ttl=60)
    client = Redis.from_url(server.url())
    for i in range(3):
        ids = {"thread_id": f"t{i}", "user_id": "ada"}
        await turn(checkpointer, "a", ids)
        config = dict(ids)
        state = await read(checkpointer, config)
        assert state is not None
        await write(checkpointer, config, state)
        await checkpointer.adelete_message(config, state.context[0].message_id)
    await checkpointer.aclean_thread({"thread_id": "t0", "user_id": "ada"})
    assert client.get("state_cache:t0:ada") is None
    keys = client.keys("*")
    assert keys
    assert all(0 < client.ttl(key) <= 3600 for key in keys)
    assert 0 < client.ttl("state_cache:t2:ada") <= 60 or client.get("state_cache:t2:ada") is None
    client.close()
    await checkpointer.aclose()
