"""Every Python block in README and docs runs, in the order in which a reader meets it."""

import re
from pathlib import Path

import programs
import pytest

PAGES = [programs.ROOT / "README.md", *sorted((programs.ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- not run: [^>]+-->\n)?```python\n(.*?)```", re.DOTALL)

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    blocks = [code for not_run, code in BLOCK.findall(page.read_text()) if not not_run]
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    programs.run(RUNNER, str(program), cwd=tmp_path, flags=())


def test_every_page_is_on_the_map() -> None:
    readme = (programs.ROOT / "README.md").read_text()
    missing = [page.name for page in PAGES[1:] if f"docs/{page.name}" not in readme]
    assert not missing, f"README does not link to {missing}"
