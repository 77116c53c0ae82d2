"""One checkpointer in any number of event loops, threads and processes, and none left behind."""

import asyncio
from pathlib import Path

import programs
import pytest
from threads import config, state, texts

from tenxgraph.storage import create_checkpointer

SEVERAL_LOOPS = """
    import asyncio, gc, sys, threading
    from threads import config, state, texts
    from tenxgraph.storage import create_checkpointer

    kept = create_checkpointer(sys.argv[1])
    kept.setup()
    for number in range(3):
        asyncio.run(kept.aput_state(config(f"t{number}"), state(str(number))))
        gc.collect()
    asyncio.run(kept.asetup())
    assert texts(asyncio.run(kept.aget_state(config("t0")))) == ["0"]
    assert texts(kept.get_state(config("t1"))) == ["1"]

    read = []
    def in_thread(number):
        read.append(texts(asyncio.run(kept.aget_state(config(f"t{number}")))))
    started = [threading.Thread(target=in_thread, args=(number,)) for number in range(3)]
    for one in started: one.start()
    for one in started: one.join(10)
    assert sorted(read) == [["0"], ["1"], ["2"]], read

    async def sync_in_a_loop():
        await kept.aput_state(config("t3"), state("3"))
        return texts(kept.get_state(config("t3")))
    assert asyncio.run(sync_in_a_loop()) == ["3"]

    loop = asyncio.new_event_loop()
    loop.run_until_complete(kept.aput_state(config("t4"), state("4")))
    assert texts(kept.get_state(config("t4"))) == ["4"]
    loop.run_until_complete(kept.aget_state(config("t4")))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    kept.close()
    gc.collect()
    print("done")
"""

NEVER_CLOSED = """
    import asyncio, sys
    from threads import config, state
    from tenxgraph.storage import create_checkpointer

    kept = create_checkpointer(sys.argv[1])
    kept.setup()
    kept.put_state(config("t"), state("a"))
    kept.get_state(config("t"))
    asyncio.run(kept.aget_state(config("t")))
    if sys.argv[2] == "in a loop":
        async def main():
            await kept.aput_state(config("t"), state("b"))
            await kept.aget_state(config("t"))
            sys.exit(0)
        asyncio.run(main())
"""

FORKS = """
    import asyncio, os, sys
    from threads import config, state, texts
    from tenxgraph.storage import create_checkpointer

    kept = create_checkpointer(sys.argv[1])
    kept.setup()
    kept.put_state(config("before"), state("before"))
    asyncio.run(kept.aget_state(config("before")))
    pid = os.fork()
    if not pid:
        kept.close()  # what the parent has opened is not the child's to close, nor to wait for
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    children = []
    for number in range(3):
        pid = os.fork()
        if not pid:
            for turn in range(10):
                kept.put_state(config(f"child {number}"), state(str(turn)))
                assert texts(kept.get_state(config("before"))) == ["before"]
            assert texts(asyncio.run(kept.aget_state(config(f"child {number}")))) == ["9"]
            kept.close()
            os._exit(0)
        children.append(pid)
    for turn in range(10):
        kept.put_state(config("parent"), state(str(turn)))
        assert texts(kept.get_state(config("before"))) == ["before"]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    for number in range(3):
        assert texts(kept.get_state(config(f"child {number}"))) == ["9"]
    kept.close()
    print("done")
"""

FORKS_WHILE_LOCKED = """
    import os, sys, threading
    from threads import config, state
    from tenxgraph.storage import create_checkpointer
    from tenxgraph.storage.sql import migrate, sqlite_database

    def hold():
        with migrate._lock, sqlite_database._writers._lock:
            held.set()
            done.wait()

    held, done = threading.Event(), threading.Event()
    threading.Thread(target=hold).start()
    held.wait()
    pid = os.fork()
    if not pid:
        kept = create_checkpointer(sys.argv[1])
        kept.setup()
        kept.put_state(config(), state("a"))
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    done.set()
    assert status == 0
"""


@pytest.fixture(params=["sqlite", "postgres"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables, of each dialect in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "threads.db")
    return str(request.getfixturevalue("empty_postgres"))


def test_every_loop_and_thread_may_use_one_checkpointer_and_nothing_stays_open(dsn: str) -> None:
    assert programs.run(SEVERAL_LOOPS, dsn) == "done\n"


@pytest.mark.parametrize("ending", ["plain", "in a loop"])
def test_a_program_that_never_closes_ends_at_once_and_silently(dsn: str, ending: str) -> None:
    programs.run(NEVER_CLOSED, dsn, ending, timeout=10)


def test_parent_and_children_of_a_fork_each_have_connections_of_their_own(dsn: str) -> None:
    # Python 3.12 warns of every fork of a process with threads; the caller has decided.
    flags = ("-X", "dev", "-W", "error", "-W", "ignore:This process:DeprecationWarning")
    assert programs.run(FORKS, dsn, flags=flags, timeout=30) == "done\n"


def test_a_fork_during_another_threads_setup_does_not_hang(dsn: str) -> None:
    programs.run(FORKS_WHILE_LOCKED, dsn, flags=("-W", "ignore"), timeout=15)


async def test_closing_reaches_the_connections_of_every_loop(dsn: str) -> None:
    kept = create_checkpointer(dsn)
    await kept.asetup()
    await asyncio.to_thread(kept.put_state, config(), state("a"))
    await asyncio.to_thread(lambda: asyncio.run(kept.aget_state(config())))
    await kept.aclose()
    assert texts(await kept.aget_state(config())) == ["a"], "used again, it opens again"
    await asyncio.to_thread(kept.close)
    assert texts(kept.get_state(config())) == ["a"]
    await kept.aclose()
