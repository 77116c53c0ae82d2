"""What is opened in an event loop is closed from anywhere, in bounded time and without a word."""

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import programs
import psutil  # type: ignore[import-untyped]
import pytest
from resources import KINDS, open_resource
from servers import TcpProxy
from servers.qdrant import QdrantServer
from threads import config, state

from tenxgraph._loop_thread import CLOSING_TIMEOUT
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer
from tenxgraph.testing import OpenAIServer

CLOSES = """
    import asyncio, gc, sys, threading
    from resources import open_resource

    resource = open_resource(*sys.argv[1:])

    async def closed_by_a_sync_call():
        await resource.ause()
        resource.close()
        resource.close()
        await resource.ause()
        await resource.aclose()
        await resource.aclose()

    async def closed_by_a_sync_call_at_the_very_end():
        await resource.ause()
        resource.close()

    async def closed_by_others():
        await resource.ause()
        await asyncio.to_thread(resource.close)
        await resource.ause()
        await asyncio.to_thread(lambda: asyncio.run(resource.aclose()))
        await resource.ause()
        both = [asyncio.to_thread(resource.close) for _ in range(2)]
        await asyncio.gather(resource.aclose(), *both)

    for main in (
        closed_by_a_sync_call,
        closed_by_a_sync_call_at_the_very_end,
        closed_by_others,
    ):
        asyncio.run(main())
        gc.collect()
    asyncio.run(resource.ause())
    resource.close()  # the loop is closed
    asyncio.run(resource.aclose())
    print("done")
"""

CLOSED_IN_USE = """
    import asyncio, sys
    from resources import open_resource

    resource = open_resource(*sys.argv[1:])

    async def main(close):
        using = [asyncio.create_task(resource.ause()) for _ in range(4)]
        for _ in range(20):
            await asyncio.sleep(0)
        await close()
        await asyncio.gather(*using, return_exceptions=True)
        await resource.ause()
        await resource.aclose()

    async def by_a_sync_call():
        resource.close()

    for close in (resource.aclose, by_a_sync_call, lambda: asyncio.to_thread(resource.close)):
        asyncio.run(main(close))
    print("done")
"""

NEVER_CLOSED = """
    import asyncio, atexit, gc, sys
    from resources import open_resource
    from tenxgraph._sync import run_sync

    async def of_its_own():
        await open_resource(*sys.argv[1:]).ause()

    asyncio.run(of_its_own())
    gc.collect()

    class Owner:
        def __init__(self):
            self.resource = open_resource(*sys.argv[1:])

        def __del__(self):
            self.resource.close()

    never, at_exit = open_resource(*sys.argv[1:]), open_resource(*sys.argv[1:])
    at_deletion = Owner()
    atexit.register(at_exit.close)
    for resource in (never, at_exit, at_deletion.resource):
        asyncio.run(resource.ause())
        run_sync(resource.ause)

    async def main():
        for resource in (never, at_exit, at_deletion.resource):
            await resource.ause()

    asyncio.run(main())
"""

FORKS = """
    import asyncio, gc, os, sys
    from resources import open_resource
    from tenxgraph._sync import run_sync

    resource = open_resource(*sys.argv[1:])
    run_sync(resource.ause)
    pid = os.fork()
    if not pid:
        run_sync(resource.ause)
        asyncio.run(resource.ause())
        resource.close()
        gc.collect()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    run_sync(resource.ause)
    resource.close()
    print("done")
"""

# The loop ends in the wrong way, and what is in it is left to the garbage collector.
CLOSED_BY_HAND = """
    import asyncio, gc, sys
    from resources import open_resource

    resource = open_resource(*sys.argv[1:])

    async def main(then):
        await resource.ause()
        for _ in range(10):
            await asyncio.sleep(0)  # the generator in which openai reads a stream needs some turns
        then()

    for then in (lambda: None, resource.close):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main(then))
        loop.close()
        gc.collect()
        resource.close()
        asyncio.run(resource.ause())
    print("done")
"""


@pytest.fixture(scope="module")
def openai() -> Iterator[OpenAIServer]:
    with OpenAIServer(["hello"] * 1000) as server:
        yield server


@pytest.fixture(scope="module")
def qdrant() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


@pytest.fixture(params=KINDS)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """A kind of resource, and where to find its servers and files; each kind in turn."""
    match request.param:
        case "sqlite":
            template = request.getfixturevalue("sqlite_template")
            return "sqlite", str(shutil.copy(template, tmp_path / "threads.db"))
        case "postgres":
            return "postgres", request.getfixturevalue("postgres_dsn")
        case "redis":
            redis = request.getfixturevalue("redis_server")
            return "redis", request.getfixturevalue("postgres_dsn"), redis.url()
        case "qdrant":
            return "qdrant", request.getfixturevalue("qdrant").url
        case "local-qdrant":
            return "local-qdrant", str(tmp_path / "qdrant")
        case kind:
            return kind, request.getfixturevalue("openai").base_url


def test_every_way_of_closing_returns(places: tuple[str, ...]) -> None:
    assert programs.run(CLOSES, *places) == "done\n"


def test_what_is_in_use_can_be_closed(places: tuple[str, ...]) -> None:
    # What a call was about to open when its client was closed is left to the garbage collector.
    assert programs.run(CLOSED_IN_USE, *places, flags=()) == "done\n"


def test_what_is_never_closed_ends_silently_with_the_program(places: tuple[str, ...]) -> None:
    programs.run(NEVER_CLOSED, *places)


def test_a_forked_child_opens_its_own_and_leaves_its_parents_alone(
    places: tuple[str, ...],
) -> None:
    if places[0] == "local-qdrant":
        places = ("local-qdrant", ":memory:")  # a folder serves one process
    flags = ("-X", "dev", "-W", "error", "-W", "ignore:This process:DeprecationWarning")
    assert programs.run(FORKS, *places, flags=flags) == "done\n"


def test_a_loop_closed_by_hand_drops_its_resources_silently(places: tuple[str, ...]) -> None:
    assert programs.run(CLOSED_BY_HAND, *places, flags=()) == "done\n"


def test_many_loops_in_a_row_leave_nothing_open(places: tuple[str, ...]) -> None:
    process = psutil.Process()
    resource = open_resource(*places)

    def opened() -> int:
        return int(process.num_fds()) + threading.active_count()

    asyncio.run(resource.ause())
    before = opened()
    for _ in range(20):
        asyncio.run(resource.ause())
    # The servers of some kinds are in this process, and may still be closing the last connection.
    assert opened() < before + 10
    resource.close()


def test_a_server_that_does_not_answer_holds_up_all_connections_together(
    postgres_dsn: str,
) -> None:
    async def main(proxy: TcpProxy) -> float:
        checkpointer = PostgresCheckpointer[AgentState](proxy.through(postgres_dsn))
        together = (checkpointer.aput_state(config(f"t{i}"), state("a")) for i in range(10))
        await asyncio.gather(*together)
        proxy.freeze()
        began = time.monotonic()
        await checkpointer.aclose()
        return time.monotonic() - began

    with TcpProxy("127.0.0.1", urlsplit(postgres_dsn).port or 5432) as proxy:
        assert asyncio.run(main(proxy)) < 5 * CLOSING_TIMEOUT  # one after the other: ten times
