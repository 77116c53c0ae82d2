"""What `import tenxgraph` gives, and what it costs."""

import subprocess
import sys
import zipfile
from pathlib import Path

import programs

import tenxgraph


def test_every_name_is_the_one_of_its_home() -> None:
    for name in tenxgraph.__all__:
        assert getattr(tenxgraph, name) is not None
        assert name in dir(tenxgraph)
    programs.run(
        """
        from tenxgraph import END, ReactAgent, StateGraph, Message, create_checkpointer, tool
        import tenxgraph.core.graph, tenxgraph.prebuilt.agent
        assert StateGraph is tenxgraph.core.graph.StateGraph
        assert ReactAgent is tenxgraph.prebuilt.agent.ReactAgent
        try:
            tenxgraph.Stategraph
        except AttributeError as error:
            assert "Stategraph" in str(error)
        else:
            raise AssertionError
        """
    )


def test_the_import_alone_loads_nothing_else() -> None:
    programs.run(
        """
        import sys
        import tenxgraph
        heavy = {"pydantic", "sqlalchemy", "openai", "redis", "asyncio", "tenxgraph.core.state"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        """,
        flags=(),
    )


def test_files_of_a_package_of_the_same_name_are_told(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.zip", tmp_path / "theirs.zip"
    with zipfile.ZipFile(ours, "w") as wheel:
        for path in (programs.ROOT / "tenxgraph").rglob("*.py"):
            wheel.write(path, path.relative_to(programs.ROOT))
    with zipfile.ZipFile(theirs, "w") as wheel:
        wheel.writestr("tenxgraph/core/exceptions/__init__.py", "")
    for one in (theirs, ours):  # in the order in which pip has unpacked them
        with zipfile.ZipFile(one) as wheel:
            wheel.extractall(tmp_path / "site-packages")
    done = subprocess.run(
        [sys.executable, "-c", "from tenxgraph import StateGraph"],
        env={"PYTHONPATH": str(tmp_path / "site-packages")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "`pip uninstall tenxgraph 10xgraph`" in done.stderr.splitlines()[-1]
