"""Other Python processes: what a test runs as a program of its own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
STRICT = ("-X", "dev", "-W", "error")
"""Warnings are errors, and what was never closed is a warning."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, with this checkout and the test helpers to be imported."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    return {**os.environ, "PYTHONPATH": paths, **(extra or {})}


def start(
    source: str, *arguments: str, flags: tuple[str, ...] = STRICT, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Begin to run a program."""
    return subprocess.Popen(
        [sys.executable, *flags, "-c", textwrap.dedent(source), *arguments],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(program: subprocess.Popen[str], *, timeout: float = 60) -> str:
    """Wait for its end, which must be a silent success, and return what it has printed."""
    try:
        output, errors = program.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        program.kill()
        output, errors = program.communicate()
        raise AssertionError(f"still running after {timeout} s: {output}\n{errors}") from None
    assert (program.returncode, errors) == (0, ""), f"{program.returncode}: {output}\n{errors}"
    return output


def run(
    source: str,
    *arguments: str,
    flags: tuple[str, ...] = STRICT,
    cwd: Path | None = None,
    timeout: float = 60,
) -> str:
    """Run a program to its end, as `finish` does."""
    return finish(start(source, *arguments, flags=flags, cwd=cwd), timeout=timeout)
