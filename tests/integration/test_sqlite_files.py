"""SQLite files that are missing, in the way, damaged, or strangely named."""

import os
import stat
import tempfile
from pathlib import Path

import programs
import pytest
from threads import config, state, texts

from tenxgraph.core.exceptions import SchemaVersionError, StorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import SqliteCheckpointer

Sqlite = SqliteCheckpointer[AgentState]

READER = """
    import os, sys
    from threads import config, state, texts
    from tenxgraph.storage import create_checkpointer

    def read(path):
        kept = create_checkpointer(path)
        kept.setup()
        return kept, texts(kept.get_state(config()))

    read(sys.argv[2])[0].close()  # all is imported, before it may no longer be
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    kept, found = read(sys.argv[1])
    assert found == ["a"]
    try:
        kept.put_state(config(), state("b"))
    except Exception as error:
        print(error.code)
    kept.close()
"""


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("call", ["aget_state", "aput_state", "alist_threads"])
async def test_a_missing_file_is_not_made_by_a_read_or_a_write(call: str, tmp_path: Path) -> None:
    path = tmp_path / "missing.db"
    arguments = [config(), state("a")] if call == "aput_state" else [config()]
    async with Sqlite(path) as kept:
        with pytest.raises(SchemaVersionError, match=r"setup\(\)") as caught:
            await getattr(kept, call)(*arguments)
        assert str(path) in str(caught.value)
        assert names_in(tmp_path) == set()
        await kept.asetup()
        await kept.aput_state(config(), state("a"))
        assert texts(await kept.aget_state(config())) == ["a"]


@pytest.mark.parametrize("call", ["asetup", "aget_state"])
async def test_a_missing_folder_is_named(call: str, tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "threads.db"
    async with Sqlite(path) as kept:
        with pytest.raises(StorageError, match="no such folder") as caught:
            await getattr(kept, call)(*([config()] if call == "aget_state" else []))
        assert caught.value.code == "cannot_open"


@pytest.mark.parametrize("call", ["asetup", "aget_state"])
async def test_a_file_that_is_no_database_is_named_and_left_alone(
    call: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes, and nobody's database. " * 200)
    before = path.read_bytes()
    async with Sqlite(path) as kept:
        with pytest.raises(StorageError, match=r"notes\.txt") as caught:
            await getattr(kept, call)(*([config()] if call == "aget_state" else []))
        assert caught.value.code == "damaged"
    assert path.read_bytes() == before


async def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    async with Sqlite(tmp_path) as kept:
        with pytest.raises(StorageError, match=tmp_path.name):
            await kept.asetup()


@pytest.mark.parametrize(
    "name", ["with space.db", "50%.db", "a?b#c.db", "ümläut.db", "q'uote\".db", "%41.db"]
)
async def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    async with Sqlite(tmp_path / name) as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))
        assert texts(await kept.aget_state(config())) == ["a"]
        assert names_in(tmp_path) == {name, f"{name}-wal", f"{name}-shm"}


def test_a_file_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "threads.db"
    kept = Sqlite(path)
    kept.setup()
    kept.put_state(config(), state("a"))
    kept.close()
    for above in path.parents:
        if above == Path(tempfile.gettempdir()):
            break
        above.chmod(above.stat().st_mode | stat.S_IXOTH)
    folder.chmod(0o777)
    path.chmod(0o444)
    assert programs.run(READER, str(path), str(tmp_path / "own.db")) == "read_only\n"


async def test_the_working_directory_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Sqlite("threads.db") as kept:
        await kept.asetup()
        os.chdir("/")
        await kept.aput_state(config(), state("a"))
        assert texts(await kept.aget_state(config())) == ["a"]
    assert (tmp_path / "threads.db").exists()
