"""A caller who gives up leaves a whole write or none, and connections that work."""

import asyncio
import random
from pathlib import Path

import pytest
from backends import DURABLE, Backend, on_postgres, on_sqlite
from threads import config, grown, state, texts

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import StaleStateError

ROUNDS = 100

# A cache in front may be a version behind after a cancelled write, as after a crash.
durable = pytest.mark.parametrize("backend", DURABLE, indirect=True)


@durable
async def test_a_cancelled_write_is_all_or_nothing(backend: Backend) -> None:
    kept = backend.opened[0]
    turns = random.Random(7)
    written = cancelled = 0
    for number in range(ROUNDS):
        of_run = config()
        before = await kept.aget_state(of_run)
        writing = asyncio.create_task(
            kept.aput_state(of_run, grown(before, f"{number} a", f"{number} b"))
        )
        # One round in five is left alone. The others are cancelled after some turns of the loop,
        # which fall into the write on a fast machine and on a slow one.
        if number % 5:
            for _ in range(turns.randrange(12)):
                await asyncio.sleep(0)
            writing.cancel()
        finished = (await asyncio.gather(writing, return_exceptions=True))[0]
        # A write that was cancelled on its way may arrive later, and before this one.
        assert isinstance(finished, AgentState | asyncio.CancelledError | StaleStateError)
        written += isinstance(finished, AgentState)
        cancelled += isinstance(finished, asyncio.CancelledError)
    assert cancelled
    assert written
    # What was already on its way arrives, though nobody waits for it.
    await asyncio.sleep(0.2)
    await kept.aput_state(config("behind it"), state("a"))
    after = texts(await kept.aget_state(config()))
    assert after == [text for pair in zip(after[::2], after[1::2], strict=True) for text in pair]
    assert [text[:-2] for text in after[::2]] == [text[:-2] for text in after[1::2]]
    assert len(after) >= 2 * written
    assert [one.text() for one in await kept.alist_messages(config())] == after
    newest = (await kept.alist_states(config(), limit=1))[0].version if after else 0
    assert newest == len(after) // 2


async def test_a_cancelled_read_leaves_connections_that_work(backend: Backend) -> None:
    kept = backend.opened[0]
    await kept.aput_state(config(), state("a"))
    moments = random.Random(7)
    for _ in range(ROUNDS):
        reading = [asyncio.create_task(kept.aget_state(config())) for _ in range(3)]
        await asyncio.sleep(moments.uniform(0, 0.002))
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    read = await asyncio.gather(*(kept.aget_state(config()) for _ in range(30)))
    assert [texts(one) for one in read] == [["a"]] * 30


async def test_a_timeout_in_a_queue_of_writers_frees_it(backend: Backend) -> None:
    kept = backend.opened[0]

    async def append(number: int) -> None:
        async with asyncio.timeout(0.05):
            await kept.aput_state(config(f"t{number % 5}"), state(f"{number}"))

    outcomes = await asyncio.gather(*(append(n) for n in range(200)), return_exceptions=True)
    assert {type(one) for one in outcomes} <= {type(None), TimeoutError}
    await asyncio.wait_for(kept.aput_state(config("t0"), state("last")), 5)
    assert texts(await kept.aget_state(config("t0"))) == ["last"]


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
async def test_a_cancelled_setup_can_be_repeated(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if dialect == "sqlite":
        backend = on_sqlite(str(tmp_path / "threads.db"))
    else:
        backend = on_postgres(request.getfixturevalue("empty_postgres"))
    turns = random.Random(7)
    cancelled = 0
    for _ in range(20):
        task = asyncio.create_task(backend.make().asetup())
        for _ in range(turns.randrange(12)):
            await asyncio.sleep(0)
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        cancelled += isinstance(outcome, asyncio.CancelledError)
    assert cancelled
    kept = backend.make()
    await asyncio.wait_for(kept.asetup(), 10)
    await kept.aput_state(config(), state("a"))
    assert texts(await kept.aget_state(config())) == ["a"]
    await backend.close()
