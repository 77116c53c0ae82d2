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


BARE = """
import runpy, sys
for extra in ("asyncpg", "redis", "openai", "qdrant_client", "wordllama", "fastapi", "uvicorn"):
    sys.modules[extra] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("memory_snippets.py", "qdrant,local"),
        ("support_agent.py", "qdrant,local"),
        ("react_agent.py", "openai,qdrant"),
        ("server.py", "server"),
        ("replay_conversations.py", "postgres"),
    ],
)
def test_an_example_without_its_extras_ends_with_one_line(name: str, extras: str) -> None:
    arguments = ["postgresql://localhost/agents"] if name.startswith("replay") else []
    done = subprocess.run(
        [sys.executable, "-c", BARE, str(EXAMPLES / name), *arguments],
        env=programs.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    (line,) = done.stderr.splitlines()
    assert line.endswith(f'pip install "tenxgraph[{extras}]"')
    assert done.returncode == 1


@pytest.mark.parametrize("name", ["two_workers.py", "human_approval.py"])
def test_an_example_that_needs_no_extra_runs_without_any(name: str) -> None:
    command = [sys.executable, "-c", BARE, str(EXAMPLES / name)]
    environment = programs.environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readme_says_what_each_example_needs() -> None:
    readme = (programs.ROOT / "README.md").read_text()
    table = readme.partition("## The examples")[2].partition("## The map")[0]
    missing = [path.name for path in EXAMPLES.glob("*.py") if f"`{path.name}" not in table]
    assert not missing, f"README does not say what {missing} need"
