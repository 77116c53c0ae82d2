"""The shape of the package: small files, no pickle, nothing imported before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import tenxgraph
from tenxgraph.storage.sql import migrate

PACKAGE = Path(tenxgraph.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
OPTIONAL = ["alembic", "asyncpg", "fastapi", "mem0", "openai", "qdrant_client", "redis"]


def imported(file: Path) -> set[str]:
    """The top-level packages that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def loaded_by(module: str) -> set[str]:
    """The top-level packages that are loaded in a new process after an import."""
    program = f"import sys, {module}; print(*(name.partition('.')[0] for name in sys.modules))"
    command = [sys.executable, "-c", program]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_the_package_was_found() -> None:
    assert len(FILES) > 40


def test_every_file_is_short_enough_to_be_one_noun() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {str(file): length for file, length in lengths.items() if length > 400} == {}


def test_nothing_is_ever_unpickled() -> None:
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
    assert {str(file): names for file in FILES if (names := imported(file) & banned)} == {}


@pytest.mark.parametrize(
    "module", ["tenxgraph", "tenxgraph.core.state", "tenxgraph.storage.checkpointer"]
)
def test_an_import_loads_nothing_that_not_everybody_needs(module: str) -> None:
    assert loaded_by(module) & set(OPTIONAL) == set()


def test_the_code_knows_exactly_the_revisions_that_there_are() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.script_location()))
    scripts = ScriptDirectory.from_config(config)
    oldest_first = [script.revision for script in scripts.walk_revisions()][::-1]
    assert tuple(oldest_first) == migrate.REVISIONS
    assert scripts.get_heads() == [migrate.REVISIONS[-1]]
