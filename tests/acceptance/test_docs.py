"""Every Python block in README and docs runs, in the order in which a reader meets it."""

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


def test_every_page_is_on_the_map() -> None:
    readme = (programs.ROOT / "README.md").read_text()
    missing = [page.name for page in pages.PAGES[1:] if f"docs/{page.name}" not in readme]
    assert not missing, f"README does not link to {missing}"
