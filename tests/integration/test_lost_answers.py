"""A write whose answer never came: it took effect once, and the writer is told the truth."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from threading import Event
from typing import Any

import pytest
from servers import TcpProxy
from servers.postgres import PostgresEndpoint
from threads import config, grown, message, state, texts

from tenxgraph.core.exceptions import StaleStateError, TransientStorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer
from tenxgraph.storage.records import ThreadInfo, ToolExecution

Postgres = PostgresCheckpointer[AgentState]


@pytest.fixture
def proxy(postgres_server: PostgresEndpoint) -> Iterator[TcpProxy]:
    port = int(postgres_server.dsn().rpartition(":")[2].partition("/")[0])
    with TcpProxy("127.0.0.1", port) as made:
        yield made


@pytest.fixture
async def kept(postgres_dsn: str, proxy: TcpProxy) -> AsyncIterator[Postgres]:
    """A checkpointer by way of the proxy, whose statements are prepared already."""
    async with Postgres(proxy.through(postgres_dsn)) as made:
        warm = config("warm")
        written = await made.aput_state(warm, state("w1"))
        await made.aput_state(warm, grown(written, "w2"))
        await made.aput_messages(config("warm"), [message("w3")])
        await made.aget_state(config("warm"))
        yield made


async def direct(postgres_dsn: str, thread_id: str = "t") -> tuple[list[str], list[int], int]:
    """What another client finds: the context, the versions, the number of messages."""
    async with Postgres(postgres_dsn) as other:
        read = texts(await other.aget_state(config(thread_id)))
        versions = [one.version for one in await other.alist_states(config(thread_id))]
        return read, versions, len(await other.alist_messages(config(thread_id)))


@pytest.mark.parametrize("expecting", [True, False])
async def test_a_committed_write_is_a_success(
    expecting: bool, kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    of_run = config()
    written = await kept.aput_state(of_run, state("a"))
    lost = proxy.lose_next_reply()
    now = of_run if expecting else config()
    written = await kept.aput_state(now, grown(written, "b"))
    assert lost.is_set()
    assert now["_checkpoint_version"] == 2
    assert await direct(postgres_dsn) == (["a", "b"], [2, 1], 2)
    await kept.aput_state(now, grown(written, "c"))
    assert await direct(postgres_dsn) == (["a", "b", "c"], [3, 2, 1], 3)


async def test_the_first_write_of_a_thread_is_a_success(
    kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    for thread_id, more in (("t1", {}), ("t2", {"_checkpoint_version": 0})):
        of_run = config(thread_id, **more)
        lost = proxy.lose_next_reply()
        written = await kept.aput_state(of_run, state("a"))
        assert lost.is_set()
        await kept.aput_state(of_run, grown(written, "b"))
        assert await direct(postgres_dsn, thread_id) == (["a", "b"], [2, 1], 2)


@pytest.mark.parametrize("expecting", [True, False])
async def test_a_write_that_never_arrived_is_repeated(
    expecting: bool, kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    of_run = config()
    written = await kept.aput_state(of_run, state("a"))
    now = of_run if expecting else config()
    proxy.freeze()
    writing = asyncio.create_task(kept.aput_state(now, grown(written, "b")))
    await asyncio.sleep(0.05)
    proxy.cut()
    proxy.thaw()
    written = await writing
    assert now["_checkpoint_version"] == 2
    await kept.aput_state(now, grown(written, "c"))
    assert await direct(postgres_dsn) == (["a", "b", "c"], [3, 2, 1], 3)


async def test_a_write_that_never_arrived_is_stale_once_another_has_committed(
    kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    of_run = config()
    written = await kept.aput_state(of_run, state("a"))
    proxy.freeze()
    writing = asyncio.create_task(kept.aput_state(of_run, grown(written, "mine")))
    await asyncio.sleep(0.05)
    async with Postgres(postgres_dsn) as other:
        await other.aput_state(config(), state("theirs"))
    proxy.cut()
    proxy.thaw()
    with pytest.raises(StaleStateError):
        await writing
    assert await direct(postgres_dsn) == (["theirs"], [2, 1], 2)


async def test_messages_alone_are_stored_once(
    kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    await kept.aput_messages(config(), [message("a")])
    lost = proxy.lose_next_reply(b"COMMIT;")
    await kept.aput_messages(config(), [message("b"), message("c")])
    assert lost.is_set()
    assert await direct(postgres_dsn) == ([], [], 3)


async def test_a_write_of_known_messages_is_a_success(
    kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    of_run = config()
    await kept.aput_state(of_run, state("a"))
    lost = proxy.lose_next_reply(b"COMMIT;")
    await kept.aput_state(of_run, state("a", "b"))
    assert lost.is_set()
    assert await direct(postgres_dsn) == (["a", "b"], [2, 1], 2)


async def test_an_import_is_a_success(kept: Postgres, proxy: TcpProxy, postgres_dsn: str) -> None:
    await kept.aput_state(config("from"), state("a", "b"))
    lines = [line async for line in kept.aexport_thread(config("from"))]
    lost = proxy.lose_next_reply(b"COMMIT;")
    info = await kept.aimport_thread(config("to"), lines)
    assert lost.is_set()
    assert info.thread_id == "to"
    assert await direct(postgres_dsn, "to") == (["a", "b"], [1], 2)


async def test_whatever_else_is_written_is_a_success(
    kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    def lose() -> Event:
        lost.append(proxy.lose_next_reply(b"COMMIT;"))
        return lost[-1]

    lost: list[Event] = []
    await kept.aput_state(config(), state("a", "b"))
    lose()
    await kept.aput_thread(config(), ThreadInfo(thread_id="t", thread_name="named"))
    lose()
    await kept.arequest_stop(config())
    lose()
    tool: dict[str, Any] = {"message_id": "a", "position": 0, "tool_name": "f"}
    await kept.aput_tool_result(config(), ToolExecution(**tool, status="finished", result=1))
    lose()
    await kept.aclear_state(config())
    assert all(one.is_set() for one in lost)
    info = await kept.aget_thread(config())
    assert info is not None
    assert info.thread_name == "named"
    assert await kept.ais_stop_requested(config())
    assert [one.result for one in await kept.alist_tool_results(config())] == [1]
    assert await direct(postgres_dsn) == ([], [], 2)


async def test_what_was_deleted_was_there(
    kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    await kept.aput_state(config(), state("a", "b"))
    lost = proxy.lose_next_reply(b"COMMIT;")
    assert await kept.adelete_message(config(), "a") is True
    assert lost.is_set()
    assert await direct(postgres_dsn) == (["b"], [1], 1)
    lost = proxy.lose_next_reply(b"COMMIT;")
    assert await kept.aclean_thread(config()) is True
    assert lost.is_set()
    assert await direct(postgres_dsn) == ([], [], 0)


async def test_what_was_never_there_was_not_deleted(kept: Postgres, proxy: TcpProxy) -> None:
    for lose_at in (b"DELETE", b"COMMIT;"):
        lost = proxy.lose_next_reply(lose_at)
        assert await kept.aclean_thread(config("nowhere")) is False
        assert lost.is_set()


async def test_nobody_is_told_a_guess(postgres_dsn: str, proxy: TcpProxy) -> None:
    async with Postgres(
        proxy.through(postgres_dsn), command_timeout=0.3, connect_timeout=0.3
    ) as kept:
        of_run = config()
        written = await kept.aput_state(of_run, state("a"))
        proxy.freeze()
        with pytest.raises(TransientStorageError, match="not known") as caught:
            await kept.aput_state(of_run, grown(written, "b"))
        assert caught.value.code == "outcome_unknown"
        proxy.thaw()


async def test_others_who_append_meanwhile_make_no_append_stale(
    kept: Postgres, proxy: TcpProxy, postgres_dsn: str
) -> None:
    await kept.aput_state(config(), state("a"))
    stop = asyncio.Event()

    async def append() -> int:
        async with Postgres(postgres_dsn) as other:
            count = 0
            while not stop.is_set():
                await other.aput_state(config(), state(f"theirs {count}"))
                count += 1
            return count

    others = asyncio.create_task(append())
    for turn in range(20):
        lost = proxy.lose_next_reply()
        await kept.aput_state(config(), state(f"mine {turn}"))
        assert lost.is_set()
    stop.set()
    theirs = await others
    async with Postgres(postgres_dsn) as other:
        listed = [one.text() for one in await other.alist_messages(config())]
    assert [one for one in listed if one[:4] == "mine"] == [f"mine {turn}" for turn in range(20)]
    assert len(listed) == 21 + theirs
