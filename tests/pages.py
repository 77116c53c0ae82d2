"""The Python blocks of README and docs, as programs: to run, and to check their types."""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"(<!-- not run: [^>]+-->\n)?```python\n(.*?)```", re.DOTALL)
_AWAITS = re.compile(r"^(?:.*\b)?(?:await|async with|async for) ", re.MULTILINE)


def program(page: Path, *, all_blocks: bool = False) -> str:
    """Return the blocks of a page, one after the other, as a reader meets them.

    Args:
        page: a Markdown file.
        all_blocks: True to include blocks that need a server of the reader's own.
    """
    found = _BLOCK.findall(page.read_text())
    return "\n".join(code for not_run, code in found if all_blocks or not not_run)


def write_modules(folder: Path) -> None:
    """Write every page as a module that a type checker reads.

    A page may use `await` at the top level, as in a notebook, which a module may not.
    """
    for page in PAGES:
        source = program(page, all_blocks=True)
        if _AWAITS.search(source):
            source = "async def page() -> None:\n" + textwrap.indent(source, "    ")
        (folder / f"page_{page.stem.replace('-', '_').lower()}.py").write_text(source)


if __name__ == "__main__":
    write_modules(Path(sys.argv[1]))
