"""The hot cache: what the refresh adds to a write, and what a hit saves of a read.

    python benchmarks/cache.py [--rounds 100]

Starts its own PostgreSQL and Redis (Valkey), reached over TCP on loopback. Every ratio is between
steps that were taken in turn in one run.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import redis.asyncio
from figures import Step, check, finish, medians
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from servers import PostgresServer, RedisServer

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.cache import RedisCache
from tenxgraph.storage.checkpointer import PgCheckpointer, PostgresCheckpointer

LENGTHS = (10, 100, 1_000, 5_000)
TEXT = "x" * 500
DICTS = {"row_factory": dict_row, "prepare_threshold": 0}
SMALL, LARGE = 5_000, 5_000_000

Checkpointer = PgCheckpointer[Any] | PostgresCheckpointer[Any]


def two_messages() -> list[Message]:
    """What one turn adds: a question and an answer of 500 characters each."""
    return [Message.text_message(TEXT), Message.assistant(TEXT)]


class Thread:
    """One thread of about a given length, and the steps that are timed."""

    def __init__(self, checkpointer: Checkpointer, length: int, name: str = "") -> None:
        self.checkpointer = checkpointer
        self.ids = {"thread_id": f"{name}{length}", "user_id": "bench"}
        self.config: dict[str, Any] = dict(self.ids)
        self.state = AgentState()
        self.length = length

    async def fill(self) -> "Thread":
        context = [message for _ in range(self.length // 2) for message in two_messages()]
        self.state.context = context
        await self.checkpointer.aput_state(self.config, self.state)
        return self

    async def write(self) -> None:
        """What the run loop does after a node: the durable write, then the refresh."""
        self.state.context = [*self.state.context, *two_messages()]
        await self.checkpointer.aput_checkpoint(self.config, self.state)
        await self.checkpointer.aput_state_cache(self.config, self.state)

    async def read(self) -> None:
        """What the run loop does at its start: the cache, else the database."""
        config: dict[str, Any] = dict(self.ids)
        state = await self.checkpointer.aget_state_cache(config)
        if state is None:
            state = await self.checkpointer.aget_state(config)
        assert state is not None
        assert len(state.context) >= self.length

    async def read_as_a_stranger(self) -> None:
        """The same in a process that has never seen this thread."""
        if isinstance(self.checkpointer, PgCheckpointer):
            self.checkpointer._entries.forget(
                self.checkpointer._get_thread_key(self.ids["thread_id"], "bench")
            )
        await self.read()


async def writes(dsn: str, server: RedisServer, rounds: int) -> None:
    print("\nDurable write and cache refresh, against the durable write alone and a bare SET")
    cached = PgCheckpointer[Any](dsn, redis_url=server.url())
    plain = PostgresCheckpointer[Any](dsn)
    client: Any = redis.asyncio.Redis.from_url(server.url())
    async with cached, plain:
        for length in LENGTHS:
            both = await Thread(cached, length, "both").fill()
            alone = await Thread(plain, length, "alone").fill()
            value = await client.get(f"state_cache:both{length}:bench")

            async def bare_set(value: bytes = value) -> None:
                await client.set("bare", value, ex=86400)

            steps: dict[str, Step] = {"both": both.write, "alone": alone.write, "set": bare_set}
            taken = await medians(steps, rounds)
            print(
                f"  at {length:>5,} messages, {len(value):>9,} bytes: {taken['both']:.3f} ms; "
                f"durable write {taken['alone']:.3f} ms, SET {taken['set']:.3f} ms"
            )
            ratio = taken["both"] / (taken["alone"] + taken["set"])
            check(f"write and refresh / (write + SET) at {length:,} messages", ratio, 1.5)
    await client.aclose()


async def reads(dsn: str, postgres: PostgresServer, server: RedisServer, rounds: int) -> None:
    print("\nHot and cold reads, and langgraph-checkpoint-postgres")
    theirs = postgres.create_database(f"langgraph_{uuid4().hex[:8]}")
    cached = PgCheckpointer[Any](dsn, redis_url=server.url())
    plain = PostgresCheckpointer[Any](dsn)
    # Both from a pool, as a service has them; what theirs takes on one connection is printed too.
    pooled: Any = AsyncConnectionPool(theirs, open=False, kwargs={"autocommit": True, **DICTS})
    async with cached, plain, pooled, AsyncPostgresSaver.from_conn_string(theirs) as single:
        await single.setup()
        saver = AsyncPostgresSaver(pooled)
        for length in LENGTHS:
            hot = await Thread(cached, length, "read").fill()
            cold = Thread(plain, length, "read")
            steps: dict[str, Step] = {
                "hot": hot.read,
                "first": hot.read_as_a_stranger,
                "cold": cold.read,
                "langgraph": await langgraph_read(saver, length),
                "single": await langgraph_read(single, length),
            }
            taken = await medians(steps, rounds)
            print(
                f"  at {length:>5,} messages: hot {taken['hot']:.3f} ms, of a thread new to the "
                f"process {taken['first']:.3f} ms; cold {taken['cold']:.3f} ms; "
                f"langgraph {taken['langgraph']:.3f} ms, {taken['single']:.3f} ms without a pool"
            )
            if length == 1_000:
                check("hot read / cold read at 1,000 messages", taken["hot"] / taken["cold"], 0.5)
                check(
                    "hot read of a thread new to the process / cold read at 1,000 messages",
                    taken["first"] / taken["cold"],
                    1.0,
                )
            ratio = taken["cold"] / taken["langgraph"]
            check(f"cold read / langgraph-checkpoint-postgres at {length:,}", ratio, 1.0)


async def langgraph_read(saver: AsyncPostgresSaver, length: int) -> Step:
    messages: list[Any] = []
    for _ in range(length // 2):
        messages += HumanMessage(TEXT, id=uuid4().hex), AIMessage(TEXT, id=uuid4().hex)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": "1"}
    config: Any = {"configurable": {"thread_id": f"thread-{length}", "checkpoint_ns": ""}}
    await saver.aput(config, checkpoint, {"step": 1}, {"messages": "1"})

    async def step() -> None:
        found = await saver.aget_tuple(config)
        assert found is not None
        assert len(found.checkpoint["channel_values"]["messages"]) == length

    return step


async def without_redis(dsn: str, server: RedisServer, rounds: int) -> None:
    print("\nWith Redis stopped, once the breaker is open")
    cached = PgCheckpointer[Any](dsn, redis_url=server.url())
    plain = PostgresCheckpointer[Any](dsn)
    async with cached, plain:
        for length in (10, 1_000):
            down = await Thread(cached, length, "down").fill()
            alone = await Thread(plain, length, "down-alone").fill()
            server.stop()
            for _ in range(5):
                await down.read()
            steps = {
                "write": down.write,
                "write alone": alone.write,
                "read": down.read,
                "read alone": alone.read,
            }
            taken = await medians(steps, rounds)
            server.start()
            for step in ("write", "read"):
                print(f"  {step}: {taken[step]:.3f} ms, {taken[f'{step} alone']:.3f} ms without")
                check(
                    f"{step} with a stopped Redis / without a cache at {length:,} messages",
                    taken[step] / taken[f"{step} alone"],
                    1.1,
                )


async def guard(server: RedisServer, rounds: int) -> None:
    print("\nTime of the guard in Redis, by INFO commandstats")
    client: Any = redis.asyncio.Redis.from_url(server.url())
    cache = RedisCache(server.url(), timeout=5)
    spent: dict[tuple[bool, int], float] = {}
    for accepted in (False, True):
        for size in (SMALL, LARGE):
            await client.flushall()
            await put(cache, 1_000_000, size)
            await client.config_resetstat()
            for i in range(rounds):
                # What is refused is small: what is timed is the look at what is there.
                args = (1_000_001 + i, size) if accepted else (1, SMALL)
                assert await put(cache, *args) is accepted
            calls = (await client.info("commandstats"))["cmdstat_evalsha"]
            spent[accepted, size] = calls["usec_per_call"]
    await client.aclose()
    await cache.close()
    for accepted, what in ((False, "refuses"), (True, "writes")):
        small, large = spent[accepted, SMALL], spent[accepted, LARGE]
        print(f"  it {what}: 5 KB {small:.1f}, 5 MB {large:.1f} microseconds per call")
    check("guard that refuses at 5 MB / at 5 KB", spent[False, LARGE] / spent[False, SMALL], 1.5)
    # A thousand times the size. Cold processor caches and freeing the old value are left, where
    # one copy of 5 MB takes some 500 microseconds, and decoding it 50,000.
    more = spent[True, LARGE] - spent[True, SMALL]
    check("microseconds that 5 MB take longer to be written than 5 KB", more, 150)


async def put(cache: RedisCache, version: int, size: int) -> bool:
    head = b'{"__checkpoint_version__":%d,"generation":"aa",' % version
    value = head.ljust(size, b" ")
    return await cache.put("state_cache:t:u", value, version=version, life="aa", seen="/")


async def main(rounds: int) -> None:
    with PostgresServer() as postgres, RedisServer() as server:
        dsn = postgres.create_database(f"bench_{uuid4().hex[:8]}")
        async with PostgresCheckpointer[Any](dsn) as checkpointer:
            await checkpointer.asetup()
        await writes(dsn, server, rounds)
        await reads(dsn, postgres, server, rounds)
        await without_redis(dsn, server, rounds)
        await guard(server, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    asyncio.run(main(parser.parse_args().rounds))
    finish()
