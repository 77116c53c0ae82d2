"""Every Python block in README and docs runs, in the order in which a reader meets it."""

import subprocess
import sys
from pathlib import Path

import pages
import programs
import pytest

# A page may use `await` at the top level, as in a notebook.
RUNNER = """
import ast, asyncio, inspect, sys
source = open(sys.argv[1]).read()
code = compile(source, sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, names))
else:
    exec(code, names)
"""


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text(pages.program(page))
    programs.run(RUNNER, str(program), cwd=tmp_path, flags=())


# Its last block has a class with a blank line, which ends a class in a REPL before Python 3.13.
NOT_PASTED = "stores.md"


@pytest.mark.parametrize(
    "page",
    [page for page in pages.PAGES if page.name != NOT_PASTED],
    ids=lambda page: page.name,
)
def test_the_python_blocks_of_a_page_can_be_pasted(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input=f"{pages.program(page)}\n\nprint('the page', 'ends here')\n",
        cwd=tmp_path,
        env=programs.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "SyntaxError" not in done.stderr, done.stderr
    assert "the page ends here" in done.stdout


def test_the_readme_names_the_page_that_cannot_be_pasted() -> None:
    assert f"the last one of docs/{NOT_PASTED}" in (programs.ROOT / "README.md").read_text()


def test_every_page_is_on_the_map() -> None:
    readme = (programs.ROOT / "README.md").read_text()
    missing = [page.name for page in pages.PAGES[1:] if f"docs/{page.name}" not in readme]
    assert not missing, f"README does not link to {missing}"
