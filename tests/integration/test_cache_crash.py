"""Processes that die, and deletions that Redis does not hear of."""

from pathlib import Path
from typing import Any

import programs
import pytest
from redis import Redis
from servers import RedisServer
from turns import IDS, KEY, cached, read, said, texts_in, turn, write

from tenxgraph.core.graph import END, StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import PgCheckpointer

DIES_BEFORE_THE_REFRESH = """
    import asyncio, os, signal, sys
    from turns import IDS, read, turn
    from tenxgraph.core.state import AgentState, Message
    from tenxgraph.storage.checkpointer import PgCheckpointer

    async def main():
        checkpointer = PgCheckpointer(sys.argv[1], redis_url=sys.argv[2])
        await turn(checkpointer, "a")
        config = dict(IDS)
        state = await read(checkpointer, config)
        state.context = [*state.context, Message.text_message("b")]
        await checkpointer.aput_checkpoint(config, state)
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
"""


@pytest.mark.crash
@pytest.mark.parametrize("verify", [False, True])
async def test_killed_between_commit_and_refresh(
    postgres_dsn: str, redis_server: RedisServer, verify: bool
) -> None:
    client: Any = Redis.from_url(redis_server.url())
    client.flushall()
    program = programs.start(DIES_BEFORE_THE_REFRESH, postgres_dsn, redis_server.url())
    assert program.wait(60) == -9, program.communicate()[1]
    program.communicate()
    assert client.get(KEY).startswith(b'{"__checkpoint_version__":2,'), "older than the database"

    checkpointer = PgCheckpointer[Any](
        postgres_dsn, redis_url=redis_server.url(), verify_cached_version=verify
    )
    state = await checkpointer.aget_state_cache(dict(IDS))
    assert (state is None) == verify, "with the check, not even read"
    graph = StateGraph(AgentState)
    graph.add_node("answer", lambda state: f"heard {len(state.context)}")
    graph.set_entry_point("answer")
    graph.add_edge("answer", END)
    app = graph.compile(checkpointer=checkpointer)
    await app.ainvoke({"messages": [Message.text_message("c")]}, config=dict(IDS))
    assert await texts_in(checkpointer) == [*said("a"), "b", "c", "heard 4"]
    client.close()
    await checkpointer.aclose()


async def test_a_thread_deleted_while_redis_is_away_is_gone_for_every_reader(
    tmp_path: Path,
) -> None:
    with RedisServer(data_dir=tmp_path) as server:
        deleter = cached(server.url())
        await turn(deleter, "a")
        idle = cached(server.url(), deleter)
        assert await texts_in(idle) == said("a")
        server.stop()
        await deleter.aclean_thread(dict(IDS))
        assert await texts_in(deleter) is None
        # In that condition nobody reads Redis; and when it is back with all it had, neither
        # who knows of the deletion believes the entry, nor who lost touch with Redis.
        server.start()
        client: Any = Redis.from_url(server.url())
        assert client.get(KEY)
        assert await texts_in(idle) is None
        assert client.get(KEY) is None, "the first who finds out removes it"
        stranger = cached(server.url(), deleter)
        assert await texts_in(stranger) is None
        assert await texts_in(deleter) is None
        client.close()
        for one in (deleter, idle, stranger):
            await one.aclose()


async def test_who_knows_of_no_outage_has_hits_checked(tmp_path: Path) -> None:
    with RedisServer(data_dir=tmp_path) as server:
        deleter = cached(server.url())
        await turn(deleter, "a")
        server.stop()
        await deleter.aclean_thread(dict(IDS))
        for payment in deleter._cache._payments.values():
            payment.cancel()  # as if the process had died
        server.start()
        checked = cached(server.url(), deleter, verify_cached_version=True)
        assert await texts_in(checked) is None
        await checked.aclose()
        deleter._cache._owed.paid(KEY, None)
        await deleter.aclose()


async def test_deleted_and_made_anew_while_redis_is_away(tmp_path: Path) -> None:
    with RedisServer(data_dir=tmp_path) as server:
        first = cached(server.url())
        second = cached(server.url(), first)
        for text in "abcd":
            await turn(first, text)
        assert await texts_in(second) == said(*"abcd")
        server.stop()
        await first.aclean_thread(dict(IDS))
        await turn(first, "new")
        server.start()
        assert await texts_in(second) == said("new")
        assert await texts_in(first) == said("new")
        await turn(second, "newer")
        assert await texts_in(first) == said("new", "newer")
        await first.aclose()
        await second.aclose()


async def test_a_message_deleted_while_redis_hangs(redis_server: RedisServer) -> None:
    with RedisServer() as server:
        first = cached(server.url(), timeout=0.1)
        await turn(first, "a")
        state = await read(first, dict(IDS))
        assert state is not None
        server.pause()
        await first.adelete_message(dict(IDS), state.context[0].message_id)
        server.resume()
        assert await texts_in(first) == ["a, answered"]
        await first.aclose()


async def test_a_run_that_goes_on_through_it_does_not_bring_a_deleted_message_back() -> None:
    with RedisServer() as server:
        first = cached(server.url(), timeout=0.1)
        await turn(first, "a")
        config = dict(IDS)
        state = await read(first, config)
        assert state is not None
        server.pause()
        await first.adelete_message(dict(IDS), state.context[0].message_id)
        server.resume()
        await write(first, config, state)
        assert await texts_in(first) == ["a, answered"]
        stranger = cached(server.url(), first)
        assert await texts_in(stranger) == ["a, answered"]
        assert stranger.cache_stats.hits == 1
        await stranger.aclose()
        await first.aclose()
