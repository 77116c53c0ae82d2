"""`tenxgraph db`: migrations from an installed package, without server or agent."""

import subprocess
import sys
from pathlib import Path

import programs
import pytest

from tenxgraph.cli import main
from tenxgraph.core.exceptions import SchemaVersionError
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.sql.migrate import REVISIONS

CONFIG = {"thread_id": "t", "user_id": "u"}


@pytest.fixture(params=["sqlite", "postgres"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "agents.db")
    empty: str = request.getfixturevalue("empty_postgres")
    return empty


def test_upgrade_makes_the_tables_and_does_no_harm_again(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["db", "upgrade", dsn]) == 0
        assert capsys.readouterr().out == f"{REVISIONS[-1]}\n"
    assert main(["db", "check", dsn]) == 0
    assert main(["db", "current", dsn]) == 0
    kept = create_checkpointer(dsn)
    assert kept.get_state(CONFIG) is None
    kept.close()


def test_an_older_database_is_told_and_upgraded(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    programs.alembic("upgrade", REVISIONS[0], dsn=dsn)
    assert main(["db", "check", dsn]) == 1
    assert f"at revision {REVISIONS[0]}" in capsys.readouterr().err
    assert main(["db", "current", dsn]) == 0
    assert capsys.readouterr().out == f"{REVISIONS[0]}\n"
    assert main(["db", "upgrade", dsn]) == 0
    assert main(["db", "check", dsn]) == 0


def test_a_schema_of_its_own_is_made(
    empty_postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["db", "upgrade", empty_postgres, "--schema", "agents"]) == 0
    assert main(["db", "check", empty_postgres, "--schema", "agents"]) == 0
    assert main(["db", "check", empty_postgres]) == 1
    assert "are not there" in capsys.readouterr().err
    public = create_checkpointer(empty_postgres)
    with pytest.raises(SchemaVersionError):
        public.get_state(CONFIG)
    public.close()


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ([], "TENXGRAPH_DSN"),
        (["host=localhost dbname=agents"], "postgresql://"),
        (["mysql://localhost/agents"], "postgresql://"),
        (["agents.db", "--schema", "agents"], "goes with PostgreSQL"),
    ],
)
def test_what_names_no_database_is_refused_and_makes_no_file(
    arguments: list[str],
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENXGRAPH_DSN", raising=False)
    assert main(["db", "upgrade", *arguments]) == 2
    assert remedy in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_neither_the_server_nor_the_extras_are_needed(tmp_path: Path) -> None:
    program = """
        import sys
        for name in ("fastapi", "uvicorn", "asyncpg", "redis", "openai", "qdrant_client", "jwt"):
            sys.modules[name] = None
        from tenxgraph.cli import main
        assert main(["db", "upgrade", "agents.db"]) == 0
        assert main(["db", "check", "agents.db"]) == 0
    """
    assert programs.run(program, cwd=tmp_path, flags=()).split() == [REVISIONS[-1]] * 2


def test_a_missing_driver_is_named_with_its_extra() -> None:
    program = """
        import sys
        sys.modules["asyncpg"] = None
        from tenxgraph.cli import main
        sys.exit(main(["db", "upgrade", "postgresql://localhost/agents"]))
    """
    done = subprocess.run(
        [sys.executable, "-c", programs.prepared(program)],
        env=programs.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "tenxgraph: `tenxgraph db` with PostgreSQL needs the package `asyncpg`, which is not "
        'installed. Run: pip install "tenxgraph[postgres]"'
    ]
