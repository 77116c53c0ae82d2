"""Runs with Redis in front of the database: emptied, gone, or in the middle of a deletion."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import redis.asyncio
from graphs import chain, config, said
from servers.redis import RedisServer

from tenxgraph.core.exceptions import PendingInterruptError, StaleStateError
from tenxgraph.core.graph import interrupt
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PgCheckpointer

Pg = PgCheckpointer[AgentState]


@pytest.fixture
async def redis_client(redis_server: RedisServer) -> AsyncIterator[Any]:
    client = redis.asyncio.Redis.from_url(redis_server.url())
    yield client
    await client.aclose()


@pytest.fixture
async def pg(postgres_dsn: str, redis_server: RedisServer) -> AsyncIterator[Pg]:
    url, prefix = redis_server.url(), uuid4().hex
    async with PgCheckpointer[AgentState](postgres_dsn, redis_url=url, cache_prefix=prefix) as made:
        yield made


def ask() -> str:
    return f"you said {interrupt('sure?')}"


def one() -> str:
    return "1"


async def test_a_pause_survives_an_emptied_cache_and_pruning(
    postgres_dsn: str, redis_server: RedisServer, redis_client: Any
) -> None:
    def again() -> Pg:
        return PgCheckpointer(postgres_dsn, redis_url=redis_server.url(), state_history_limit=1)

    async with chain(ask, one, checkpointer=again()) as app:
        await app.ainvoke("pay", config())
    await redis_client.flushall()
    async with chain(ask, one, checkpointer=again()) as app:
        with pytest.raises(PendingInterruptError):
            await app.ainvoke("hello?", config())
        await redis_client.flushall()
        result = await app.ainvoke({"resume": "yes"}, config())
    assert said(result["state"]) == ["user: pay", "assistant: you said yes", "assistant: 1"]


async def test_a_thread_deleted_in_the_middle_of_a_run_leaves_nothing_in_redis(
    pg: Pg, redis_client: Any
) -> None:
    reached, released = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        reached.set()
        await released.wait()
        return "late"

    running = asyncio.create_task(chain(slow, checkpointer=pg).ainvoke("hi", config("gone")))
    await reached.wait()
    assert await pg.aclean_thread(config("gone"))
    released.set()
    with pytest.raises(StaleStateError):
        await running
    assert await redis_client.keys("*state_cache:gone:u") == []
    assert await pg.aget_state(config("gone")) is None


async def test_an_entry_that_a_crash_left_behind_is_seen_through(pg: Pg, redis_client: Any) -> None:
    app = chain(one, checkpointer=pg)
    await app.ainvoke("first", config())
    (key,) = await redis_client.keys(f"{pg._prefix}state_cache:t:u")
    old = await redis_client.get(key)
    await app.ainvoke("second", config())
    await redis_client.set(key, old)
    result = await app.ainvoke("third", config())
    users = [text for text in said(result["state"]) if text.startswith("user")]
    assert users == ["user: first", "user: second", "user: third"]
    assert len(result["state"].context) == 6


async def test_a_pause_that_is_over_is_not_heard_again(pg: Pg, redis_client: Any) -> None:
    app = chain(ask, one, checkpointer=pg)
    await app.ainvoke("pay", config(run_id="r"))
    (key,) = await redis_client.keys(f"{pg._prefix}state_cache:t:u")
    old = await redis_client.get(key)
    await app.ainvoke({"resume": "yes"}, config())
    await redis_client.set(key, old)
    result = await app.ainvoke("pay", config(run_id="r"))
    assert result["interrupts"] == []
    assert said(result["messages"]) == ["assistant: you said yes", "assistant: 1"]


async def test_redis_may_go_away_while_a_run_goes_on(postgres_dsn: str) -> None:
    with RedisServer() as server:
        pg: Pg = PgCheckpointer(postgres_dsn, redis_url=server.url())

        def unplug() -> str:
            server.stop()
            return "unplugged"

        async with chain(one, unplug, checkpointer=pg) as app:
            await app.ainvoke("hi", config())
            result = await app.ainvoke("more", config("other"))
    assert said(result["messages"]) == ["assistant: 1", "assistant: unplugged"]
