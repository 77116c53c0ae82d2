"""What is shipped works where no checkout is: from a wheel, from an sdist, and editable."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from servers.postgres import PostgresEndpoint

ROOT = Path(__file__).parents[2]

NEWCOMER = """
import sys
import tenxgraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.sql import migrate

assert tenxgraph.__file__.startswith(sys.argv[1]), tenxgraph.__file__
assert str(migrate.script_location()).startswith(sys.argv[1]), migrate.script_location()
for dsn in sys.argv[2:]:
    config = {"thread_id": "t", "user_id": "u"}
    kept = create_checkpointer(dsn)
    kept.setup()
    kept.put_state(config, AgentState(context=[Message.text_message("hello")]))
    kept.close()
    assert [one.text() for one in create_checkpointer(dsn).get_state(config).context] == ["hello"]
"""


def call(*command: str | Path, cwd: Path) -> None:
    """Run a command in a folder, without our own environment; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Build distributions with the backend that pyproject.toml names."""
    chosen = [argument for kind in kinds for argument in ("-t", kind)]
    call(sys.executable, "-m", "hatchling", "build", "-d", target, *chosen, cwd=source)
    return sorted(target.iterdir())


class Environment:
    """A virtual environment that has the dependencies, and not the package."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        (self.site_packages,) = folder.glob("lib/python*/site-packages")

    def install(self, *arguments: str | Path) -> None:
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install")
        # Before the dependencies, among which pip would find the package itself.
        call(*pip, "--quiet", "--no-deps", "--no-index", *arguments, cwd=self.site_packages)
        self._lend_dependencies()

    def install_editable(self) -> None:
        self._lend_dependencies()
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install")
        flags = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed")
        call(*pip, *flags, "--editable", ROOT, cwd=self.site_packages)

    def _lend_dependencies(self) -> None:
        (self.site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """The folder of an application with an Alembic of its own."""
    folder = tmp_path / "somebody else's app"
    (folder / "alembic" / "versions").mkdir(parents=True)
    (folder / "alembic" / "env.py").write_text("raise SystemExit('this is not your env.py')")
    (folder / "alembic.ini").write_text("[alembic]\nscript_location = alembic\n")
    return folder


@pytest.fixture
def dsns(postgres_server: PostgresEndpoint, stranger: Path) -> Iterator[list[str]]:
    """An empty database of each dialect."""
    name = f"test_{uuid4().hex[:12]}"
    yield [str(stranger / "threads.db"), postgres_server.create_database(name)]
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(ROOT, tmp_path_factory.mktemp("dist"), "sdist", "wheel")


@pytest.mark.parametrize("origin", ["checkout", "sdist"])
def test_a_wheel_sets_itself_up(
    origin: str, distributions: list[Path], stranger: Path, tmp_path: Path, dsns: list[str]
) -> None:
    sdist, wheel = sorted(distributions, key=lambda path: path.suffix)
    if origin == "sdist":
        with tarfile.open(sdist) as archive:
            archive.extractall(tmp_path, filter="data")
        (wheel,) = build(tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path / "dist", "wheel")
    environment = Environment(tmp_path / "venv")
    environment.install(wheel)
    place = str(environment.site_packages)
    call(environment.python, "-c", NEWCOMER, place, *dsns, cwd=stranger)


def test_alembic_finds_the_migrations_of_a_wheel(
    distributions: list[Path], tmp_path: Path, stranger: Path
) -> None:
    _, wheel = sorted(distributions, key=lambda path: path.suffix)
    environment = Environment(tmp_path / "venv")
    environment.install(wheel)
    (stranger / "alembic.ini").write_text("[alembic]\nscript_location = tenxgraph:_alembic\n")
    database = stranger / "agents.db"
    command = f"import os; os.environ['TENXGRAPH_DSN'] = {str(database)!r}; "
    command += "from alembic.config import main; main(['upgrade', 'head'])"
    call(environment.python, "-c", command, cwd=stranger)
    call(environment.python, "-m", "tenxgraph", "db", "check", database, cwd=stranger)


def test_an_editable_install_sets_itself_up(
    stranger: Path, tmp_path: Path, dsns: list[str]
) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install_editable()
    call(environment.python, "-c", NEWCOMER, str(ROOT), *dsns, cwd=stranger)
