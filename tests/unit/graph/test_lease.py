"""Whether another run is at work: seen on one machine, whatever its process does or was."""

import os
import tempfile
from pathlib import Path

import programs
import pytest

from tenxgraph.core.graph import lease
from tenxgraph.core.graph.lock_file import LockFile

LOOK = "import sys; from tenxgraph.core.graph import lease; print(lease.is_alive(sys.argv[1]))"


def seen_by_another_process(holder: str) -> str:
    return programs.run(LOOK, holder).strip()


def test_a_run_is_seen_from_its_beginning_to_its_end() -> None:
    first, second = lease.new_holder(), lease.new_holder()
    assert (lease.is_alive(first), seen_by_another_process(first)) == (True, "True")
    lease.ended(first)
    lease.ended(first)
    assert (lease.is_alive(first), seen_by_another_process(first)) == (False, "False")
    assert (lease.is_alive(second), seen_by_another_process(second)) == (True, "True")
    lease.ended(second)


def test_a_process_that_has_ended_is_dead_whoever_has_its_id_now() -> None:
    made = "from tenxgraph.core.graph import lease; print(lease.new_holder())"
    host, _pid, rest = programs.run(made).strip().split("/", 2)
    assert lease.is_alive(f"{host}/{os.getpid()}/{rest}") is False


def test_of_another_machine_or_container_nothing_is_known() -> None:
    host, pid, place, run = lease.new_holder().split("/")
    assert lease.is_alive(f"other/{pid}/{place}/{run}") is None
    assert lease.is_alive(f"{host}/{pid}/{place}0/{run}") is None


def test_of_a_run_without_a_folder_for_its_lock_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    monkeypatch.setattr(lease, "_locks", LockFile())
    holder = lease.new_holder()
    assert (lease.is_alive(holder), seen_by_another_process(holder)) == (True, "None")
    lease.ended(holder)
    assert lease.is_alive(holder) is None


def test_a_process_that_has_closed_all_its_files_opens_this_one_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    locks = LockFile()
    place, number = locks.lock(1), locks._descriptor
    with open(os.devnull) as other:
        os.dup2(other.fileno(), number)  # closes the first, and has its number
    assert locks.lock(2) == place
    assert locks._descriptor != number
    os.close(number)
