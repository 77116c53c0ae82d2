"""Many writers of one thread, in one process and in several: one wins, and nothing is lost."""

import asyncio
import json
from pathlib import Path

import programs
import pytest
from backends import Backend, on_sqlite
from threads import config, grown, message, state, texts

from tenxgraph.core.exceptions import StaleStateError

WRITERS = 50
PROCESSES = 8

RACER = """
    import asyncio, json, sys
    from threads import config, grown, texts
    from tenxgraph.core.exceptions import StaleStateError
    from tenxgraph.storage import create_checkpointer

    async def race(kept, round_, writer):
        of_run = config(f"race {round_}", _checkpoint_version=0)
        try:
            await kept.aput_state(of_run, grown(None, writer, f"{writer} more"))
        except StaleStateError:
            return 0
        return 1

    async def main():
        async with create_checkpointer(sys.argv[1]) as kept:
            await kept.aget_state(config("warm"))
            for round_ in range(5):
                print("ready", flush=True)
                await asyncio.to_thread(sys.stdin.readline)
                names = [f"{sys.argv[2]}.{number}" for number in range(6)]
                wins = await asyncio.gather(*(race(kept, round_, name) for name in names))
                print(json.dumps(sum(wins)), flush=True)

    asyncio.run(main())
"""

APPENDER = """
    import asyncio, sys
    from threads import config, state
    from tenxgraph.storage import create_checkpointer

    async def main():
        async with create_checkpointer(sys.argv[1]) as kept:
            for number in range(int(sys.argv[3])):
                await kept.aput_state(config(), state(f"{sys.argv[2]} {number}"))

    asyncio.run(main())
"""

HALF_A_WRITE = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE threads SET thread_name = 'half done'")
    print("writing", flush=True)
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    connection.close()
"""


@pytest.fixture
def shared(backend: Backend) -> str:
    """A database that several processes reach."""
    if backend.dsn is None:
        pytest.skip("one process only")
    return str(backend.dsn)


on_shared = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)


@pytest.mark.parametrize("begun", [False, True])
async def test_of_fifty_writers_from_one_version_one_wins(begun: bool, backend: Backend) -> None:
    kept = backend.opened[0]
    if begun:
        await kept.aput_state(config(), state("before"))
    runs = [config() for _ in range(WRITERS)]
    read = [await kept.aget_state(of_run) for of_run in runs]
    outcomes = await asyncio.gather(
        *(
            kept.aput_state(of_run, grown(read[number], f"{number}", f"{number} more"))
            for number, of_run in enumerate(runs)
        ),
        return_exceptions=True,
    )
    losers = [one for one in outcomes if isinstance(one, BaseException)]
    assert {type(one) for one in losers} == {StaleStateError}
    assert len(losers) == WRITERS - 1
    (winner,) = (i for i, one in enumerate(outcomes) if not isinstance(one, BaseException))
    expected = ["before"] * begun + [f"{winner}", f"{winner} more"]
    assert texts(await kept.aget_state(config())) == expected
    assert [one.text() for one in await kept.alist_messages(config())] == expected
    assert [one.version for one in await kept.alist_states(config())] == [2, 1][not begun :]
    await kept.aput_state(runs[winner], grown(None, "on"))


@on_shared
def test_of_the_writers_in_eight_processes_one_wins(shared: str) -> None:
    racers = [programs.start(RACER, shared, f"{number}") for number in range(PROCESSES)]
    wins = []
    for _ in range(5):
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdin is not None
            assert racer.stdout.readline() == "ready\n", racer.communicate()[1]
        for racer in racers:
            racer.stdin.write("go\n")  # type: ignore[union-attr]
            racer.stdin.flush()  # type: ignore[union-attr]
        wins.append(sum(json.loads(racer.stdout.readline()) for racer in racers))  # type: ignore[union-attr]
    programs.finish(*racers)
    assert wins == [1] * 5
    with programs.opened(shared) as kept:
        for number in range(5):
            found = texts(kept.get_state(config(f"race {number}")))
            assert [f"{found[0]} more"] == found[1:]
            listed = kept.list_messages(config(f"race {number}"))
            assert [one.text() for one in listed] == found


async def test_everybodys_messages_in_a_new_thread_are_kept(backend: Backend) -> None:
    kept = backend.opened[0]
    await asyncio.gather(*(kept.aput_messages(config(), [message(f"{n}")]) for n in range(25)))
    listed = await kept.alist_messages(config())
    assert sorted(one.text() for one in listed) == sorted(map(str, range(25)))


async def test_everybodys_first_state_of_a_new_thread_is_kept_or_stale(backend: Backend) -> None:
    kept = backend.opened[0]
    appended = await asyncio.gather(
        *(kept.aput_state(config(), state(f"{n}")) for n in range(15)),
        *(kept.aput_state(config("t0", _checkpoint_version=0), state(f"{n}")) for n in range(10)),
        return_exceptions=True,
    )
    assert not [one for one in appended[:15] if isinstance(one, BaseException)]
    assert [type(one) for one in appended[15:]].count(StaleStateError) == 9
    assert len(await kept.alist_messages(config())) == 15
    assert len(await kept.alist_states(config())) == 15


@on_shared
def test_processes_that_append_lose_nothing(shared: str) -> None:
    each = 40
    programs.finish(*(programs.start(APPENDER, shared, name, f"{each}") for name in "ab"))
    with programs.opened(shared) as kept:
        listed = [one.text() for one in kept.list_messages(config())]
        assert kept.list_states(config(), limit=1)[0].version == 2 * each
    for name in "ab":
        assert [one for one in listed if one[0] == name] == [f"{name} {n}" for n in range(each)]
    assert len(listed) == 2 * each


async def test_a_writer_does_not_keep_readers_waiting(tmp_path: Path) -> None:
    backend = on_sqlite(str(tmp_path / "threads.db"))
    kept = backend.make()
    await kept.asetup()
    await kept.aput_state(config(), state("a"))
    busy = programs.start(HALF_A_WRITE, str(tmp_path / "threads.db"))
    assert busy.stdout is not None
    assert busy.stdout.readline() == "writing\n"
    # The other process goes on only when it is told to: a reader that waited for it would hang.
    assert texts(await kept.aget_state(config())) == ["a"]
    other = backend.make()
    assert texts(await other.aget_state(config())) == ["a"]
    await other.asetup()
    waiting = asyncio.create_task(kept.aput_state(config(), state("b")))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    programs.finish(busy)
    await waiting
    assert texts(await kept.aget_state(config())) == ["b"]
    await backend.close()
