"""Other Python processes: what a test runs as a program of its own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tenxgraph.core.state import AgentState
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.checkpointer import BaseCheckpointer

ROOT = Path(__file__).parents[1]
Program = subprocess.Popen[str]

STRICT = ("-X", "dev", "-W", "error")
"""Warnings are errors, and what was never closed is a warning."""

# How long a callback takes on a busy machine is no warning that any test is about.
_PREAMBLE = """\
import logging, signal
logging.getLogger('asyncio').setLevel(logging.ERROR)
# Short programs have tools without docstrings, and graphs that keep nothing.
GAPS = ('_warn_of_gaps', '_warn_of_no_checkpointer')
logging.getLogger('tenxgraph.graph').addFilter(lambda record: record.funcName not in GAPS)
# Ignored where the tests themselves run in the background of a shell, and inherited from it.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, with this checkout and the test helpers to be imported."""
    paths = [str(ROOT), str(ROOT / "tests"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(extra or {})}


def prepared(source: str) -> str:
    """A program as it stands in a test, to be run."""
    return _PREAMBLE + textwrap.dedent(source)


def start(
    source: str,
    *arguments: str,
    flags: tuple[str, ...] = STRICT,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Program:
    """Begin to run a program, with so many environment variables more."""
    return subprocess.Popen(
        [sys.executable, *flags, "-c", prepared(source), *arguments],
        cwd=cwd,
        env=environment(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*programs: Program, timeout: float = 60) -> list[str]:
    """Wait for the ends, which must be silent successes, and return what was printed."""
    outputs = []
    try:
        for program in programs:
            output, errors = program.communicate(timeout=timeout)
            assert (program.returncode, errors) == (0, ""), f"{output}\n{errors}"
            outputs.append(output)
    finally:
        for program in programs:
            if program.poll() is None:
                program.kill()
                program.communicate()
    return outputs


def run(
    source: str,
    *arguments: str,
    flags: tuple[str, ...] = STRICT,
    cwd: Path | None = None,
    timeout: float = 60,
) -> str:
    """Run a program to its end, as `finish` does."""
    return finish(start(source, *arguments, flags=flags, cwd=cwd), timeout=timeout)[0]


@contextmanager
def opened(dsn: str) -> Iterator[BaseCheckpointer[AgentState]]:
    """A checkpointer for what the programs have left behind."""
    kept = create_checkpointer(dsn)
    try:
        yield kept
    finally:
        kept.close()


def alembic(*arguments: str, dsn: str, schema: str = "") -> str:
    """Run Alembic's own command in this checkout, which must succeed, and return what it said."""
    settings = {"TENXGRAPH_DSN": dsn, "TENXGRAPH_SCHEMA": schema}
    done = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said
