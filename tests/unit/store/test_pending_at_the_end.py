"""Promised writes when the process ends: at its own end, by SIGTERM, and by SIGKILL."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from file_log import FileLog

from tenxgraph.storage.store import QdrantStore, create_local_qdrant_store
from tenxgraph.testing import HashEmbedding

ALICE = {"user_id": "alice"}

PROGRAM = """
import asyncio, os, signal, sys, time
from pathlib import Path
from file_log import FileLog
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage.store import create_local_qdrant_store
from tenxgraph.testing import HashEmbedding

class Slow(HashEmbedding):
    model = "HashEmbedding"

    async def aembed_batch(self, texts):
        await asyncio.sleep({delay})
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        return await super().aembed_batch(texts)

store = create_local_qdrant_store(sys.argv[1], Slow())
alice = {{"user_id": "alice"}}
if sys.argv[2]:
    alice = FileLog(Path(sys.argv[2])).config(**alice)

async def main():
    for number in range(5):
        reply = await memory_tool(
            action="store", content=f"fact {{number}}", config=alice, store=store,
            idempotency_key=str(number),
        )
        assert "scheduled" in reply, reply
    print("scheduled", flush=True)
    {then}

asyncio.run(main())
"""

SLEEP = "await asyncio.sleep(30)"


def run(
    folder: Path, *, delay: float, then: str = "", log: str = "", kill: signal.Signals | None = None
) -> tuple[int, str]:
    program = PROGRAM.format(delay=delay, then=then)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, str(folder), log],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env={"PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parents[3]}"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if kill is not None:
        process.send_signal(kill)
    _, errors = process.communicate(timeout=60)
    assert line == "scheduled\n", errors
    return process.returncode, errors


async def kept(store: QdrantStore) -> list[str]:
    return sorted(memory.content for memory in await store.aget_all(ALICE))


def all_kept(folder: Path) -> list[str]:
    async def read() -> list[str]:
        async with create_local_qdrant_store(folder, HashEmbedding()) as store:
            return await kept(store)

    return asyncio.run(read())


FACTS = [f"fact {number}" for number in range(5)]


def test_the_end_of_the_program_waits_for_its_writes(tmp_path: Path) -> None:
    assert run(tmp_path, delay=0.5) == (0, "")
    assert all_kept(tmp_path) == FACTS


@pytest.mark.parametrize("then", ["raise SystemExit(3)", "sys.exit(3)"])
def test_an_exit_in_the_middle_waits_too(tmp_path: Path, then: str) -> None:
    assert run(tmp_path, delay=0.5, then=then) == (3, "")
    assert all_kept(tmp_path) == FACTS


def test_sigterm_lands_the_writes_and_then_ends_the_process(tmp_path: Path) -> None:
    code, errors = run(tmp_path, delay=0.5, then=SLEEP, kill=signal.SIGTERM)
    assert (code, errors) == (-signal.SIGTERM, "")
    assert all_kept(tmp_path) == FACTS


def test_an_applications_own_handler_is_left_alone(tmp_path: Path) -> None:
    then = "signal.raise_signal(signal.SIGTERM); " + SLEEP
    code, errors = run(
        tmp_path,
        delay=0.5,
        then=f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); {then}",
    )
    assert (code, errors) == (7, "")
    assert all_kept(tmp_path) == FACTS


def test_what_cannot_be_flushed_in_time_is_named(tmp_path: Path) -> None:
    patch = "import tenxgraph.storage.store.writer_thread as w; w.flush_all.__defaults__ = (0.2,)"
    code, errors = run(tmp_path, delay=20, then=patch)
    assert code == 0
    assert errors.count("before a promised memory is saved: store") == 5
    assert "user_id='alice'" in errors


def test_sigkill_loses_nothing_that_a_log_has_kept(tmp_path: Path) -> None:
    folder, log = tmp_path / "qdrant", tmp_path / "log"
    log.mkdir()
    code, _ = run(folder, delay=20, then=SLEEP, log=str(log), kill=signal.SIGKILL)
    assert code == -signal.SIGKILL

    async def recover() -> list[str]:
        async with create_local_qdrant_store(folder, HashEmbedding()) as store:
            assert await kept(store) == []
            assert FileLog(log).recover(store) == 5
            return await kept(store)

    assert asyncio.run(recover()) == FACTS
    assert list(log.iterdir()) == []


FORKER = """
import asyncio, os
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding

class Slow(HashEmbedding):
    async def aembed_batch(self, texts):
        await asyncio.sleep(0.2)
        return await super().aembed_batch(texts)

user = {"user_id": "alice"}
store = InMemoryStore(Slow())

def remember(text):
    asyncio.run(memory_tool(action="store", content=text, config=user, store=store))

remember("of the parent")
if os.fork() == 0:
    remember("of the child")
    print([memory.content for memory in store.get_all(user)], flush=True)
    os._exit(0)
os.wait()
print([memory.content for memory in store.get_all(user)])
"""


def test_a_forked_child_writes_its_own_and_not_its_parents() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKER], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.stdout == "['of the child']\n['of the parent']\n", done.stderr


WITHOUT_HOOK = """
import asyncio, atexit, concurrent.futures.thread, threading
del threading._register_atexit
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding

class Slow(HashEmbedding):
    async def aembed_batch(self, texts):
        await asyncio.sleep(0.2)
        return await super().aembed_batch(texts)

store = InMemoryStore(Slow())
atexit.register(lambda: print(store.writes.stats.landed))
asyncio.run(memory_tool(action="store", content="x", config={"user_id": "u"}, store=store))
"""


def test_a_python_without_the_hook_before_thread_pools_waits_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOOK],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
