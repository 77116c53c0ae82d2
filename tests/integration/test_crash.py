"""Processes killed at any moment of a write: a thread reads as before it or as after it."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import programs
import pytest
from backends import Backend
from servers import PostgresServer
from threads import Config, config, grown, texts

from tenxgraph.core.exceptions import TransientStorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import BaseCheckpointer, PostgresCheckpointer

pytestmark = pytest.mark.crash

KILLS = 100
KILLS_PER_THREAD = 10

# Imports once, and forks a writer for each thread id that it is sent: no interpreter to start.
NURSERY = """
    import asyncio, os, sys
    from threads import config, grown
    from tenxgraph.core.exceptions import StaleStateError
    from tenxgraph.storage import create_checkpointer

    async def write(thread_id):
        kept = create_checkpointer(sys.argv[1])
        while True:
            of_run = config(thread_id)
            state = await kept.aget_state(of_run)
            os.write(1, b"ready\\n")
            try:
                while True:
                    turn = of_run["_checkpoint_version"] + 1
                    state = await kept.aput_state(of_run, grown(state, f"{turn} a", f"{turn} b"))
                    os.write(1, b"%d\\n" % turn)
            except StaleStateError:
                pass  # the server was still at work for the writer before

    create_checkpointer(sys.argv[1])
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            asyncio.run(write(line.strip()))
        os.write(1, b"pid %d\\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"dead\\n")
"""


class Nursery:
    """Writers, one after the other, each of which is killed."""

    def __init__(self, process: programs.Program) -> None:
        self._process = process

    def raise_and_kill(self, thread_id: str, delay: float) -> int:
        """Let a writer write for `delay` seconds; the last version that it has reported."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{thread_id}\n")
        self._process.stdin.flush()
        lines = {self._line(), self._line()}
        (pid,) = (int(line.split()[1]) for line in lines if line.startswith("pid"))
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        reported = 0
        while (line := self._line()) != "dead":
            if line.isdecimal():
                reported = int(line)
        return reported

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery has died"
        return line.strip()


@contextmanager
def nursery(dsn: str) -> Iterator[Nursery]:
    process = programs.start(NURSERY, dsn, flags=())
    try:
        yield Nursery(process)
        programs.finish(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


async def check_whole(kept: BaseCheckpointer[AgentState], thread_id: str, reported: int) -> int:
    """See that a thread is whole, and return its version."""
    before, after = config(thread_id), config(thread_id)
    while True:  # until nobody writes on for the dead
        read = texts(await kept.aget_state(before))
        listed = [one.text() for one in await kept.alist_messages(config(thread_id))]
        versions = [one.version for one in await kept.alist_states(config(thread_id))]
        await kept.aget_state(after)
        version = int(before["_checkpoint_version"])
        if version == after["_checkpoint_version"]:
            break
    expected = [f"{turn} {letter}" for turn in range(1, version + 1) for letter in "ab"]
    assert read == listed == expected
    assert versions == list(range(version, max(version - 20, 0), -1))
    assert version >= reported, "what was reported as written is there"
    return version


@pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)
async def test_a_writer_killed_at_a_hundred_random_moments(backend: Backend) -> None:
    kept = backend.opened[0]
    assert backend.dsn is not None
    moments = random.Random(11)
    written, version = 0, 0
    with nursery(backend.dsn) as writers:
        for number in range(KILLS):
            thread_id = f"t{number // KILLS_PER_THREAD}"
            before = version if number % KILLS_PER_THREAD else 0
            reported = await asyncio.to_thread(
                writers.raise_and_kill, thread_id, moments.uniform(0, 0.04)
            )
            version = await check_whole(kept, thread_id, max(reported, before))
            assert version <= max(reported, before) + 1, "no more than the write in flight"
            written += version - before
    assert written > KILLS, "most were killed while they wrote"


class Appender:
    """A client that writes turn after turn, and repeats what it was told has not happened."""

    def __init__(self, kept: BaseCheckpointer[AgentState]) -> None:
        self._kept = kept
        self.reported = 0
        self.wrote = asyncio.Event()

    async def write_until(self, stop: asyncio.Event) -> None:
        of_run: Config = config()
        state = await self._kept.aget_state(of_run)
        while not stop.is_set():
            turn = of_run["_checkpoint_version"] + 1
            try:
                state = await self._kept.aput_state(of_run, grown(state, f"{turn} a", f"{turn} b"))
            except TransientStorageError:
                await asyncio.sleep(0.02)
            else:
                self.reported = turn
                self.wrote.set()


async def test_a_server_killed_at_random_moments() -> None:
    moments = random.Random(13)
    with PostgresServer(durable=False) as server:
        async with PostgresCheckpointer[AgentState](server.create_database("crashing")) as kept:
            await kept.asetup()
            appender, stop = Appender(kept), asyncio.Event()
            writing = asyncio.create_task(appender.write_until(stop))
            for _ in range(5):
                await asyncio.sleep(moments.uniform(0.05, 0.15))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                async with asyncio.timeout(10):
                    for _ in range(2):
                        appender.wrote.clear()
                        await appender.wrote.wait()
            stop.set()
            await writing
            await check_whole(kept, "t", appender.reported)
