"""The examples of long-term memory run as a newcomer would run them, without a key."""

import json
import subprocess
import sys

import programs

EXAMPLES = programs.ROOT / "examples"


def run(name: str) -> list[str]:
    environment = {k: v for k, v in programs.environment().items() if not k.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_each_memory_tool_finds_what_belongs_to_it() -> None:
    lines = run("memory_snippets.py")
    assert lines[::3] == ["memory_tool", "user_memory_tool", "agent_memory_tool"]
    found = [json.loads(line.removeprefix("  agent: ")) for line in lines[2::3]]
    assert [[memory["content"] for memory in memories] for memories in found] == [
        ["Had a broken zip"],
        ["Prefers tea to coffee"],
        ["Returns are free for 30 days"],
    ]


def test_a_customer_is_known_again_in_another_thread_and_another_process() -> None:
    assert len((EXAMPLES / "support_agent.py").read_text().splitlines()) < 90
    lines = run("support_agent.py")
    boundary = lines.index("-- another process, the same folder --")
    before, after = lines[:boundary], lines[boundary + 1 :]
    assert before[-1] == '[thread 2] agent: You told us: "My invoice has the wrong address."'
    assert after == [
        "[thread 3] maria: Which fragile goods came broken?",
        '[thread 3] agent: You told us: "The glass of my lamp was shattered when it arrived."',
        "[thread 4] peter: Which fragile goods came broken?",
        "[thread 4] agent: I know nothing of you yet. What happened?",
    ]
