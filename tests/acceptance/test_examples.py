"""The examples run as a newcomer would run them."""

import re
import subprocess
import sys

import programs
import pytest

EXAMPLES = programs.ROOT / "examples"


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env=programs.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quickstart_remembers_across_two_processes() -> None:
    assert len((EXAMPLES / "quickstart.py").read_text().splitlines()) < 60
    output = run("quickstart.py")
    before, after = output.split("-- another process, the same file --")
    assert "Hello Ada, you have spoken to me 1 time(s)." in before
    assert "Hello Ada, you have spoken to me 2 time(s)." in after


def test_a_killed_worker_is_resumed_at_the_node_it_died_in() -> None:
    output = run("crash_and_resume.py")
    assert output.count("pack runs") == 1
    assert output.count("ship runs") == 2
    assert output.count("bill runs") == 1
    assert "ended with -9" in output
    assert "['packed', 'shipped', 'billed'], completed" in output


def test_the_recorded_conversations_give_the_same_counts_on_both_databases(
    tmp_path_factory: pytest.TempPathFactory, empty_postgres: str
) -> None:
    path = tmp_path_factory.mktemp("replay") / "conversations.db"
    on_sqlite = run("replay_conversations.py", str(path)).splitlines()
    again = run("replay_conversations.py", str(path)).splitlines()
    on_postgres = run("replay_conversations.py", empty_postgres).splitlines()
    assert on_sqlite[:-1] == on_postgres[:-1] == again[:-1]
    assert on_sqlite[-2].split() == ["total", "1384", "460"]
    for lines in (on_sqlite, on_postgres):
        assert re.match(r"[\d,]+ bytes on disk, [\d,]+ writes per second$", lines[-1])
