"""`10xgraph.json`: what it may say, and how it says what is wrong."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.server import ServerSettings, load_app
from tenxgraph.server.references import load_graph, prepare_imports

MODULE = """
from tenxgraph.core.graph import StateGraph
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding

checkpointer = InMemoryCheckpointer()
store = InMemoryStore(HashEmbedding())
agent = ReactAgent(lambda messages, tools: "hi")
compiled = agent.compile(checkpointer)
number = 3

def make_checkpointer():
    return InMemoryCheckpointer()

def make(checkpointer=None):
    return agent.compile(checkpointer)

def make_agent():
    return agent

class Factory:
    def __call__(self, store=None):
        return agent.compile(store=store)

factory = Factory()

async def make_later():
    return agent

def needs(checkpointer):
    return agent.compile(checkpointer)

class nested:
    graph = compiled
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of a name that no other test has."""
    name = f"app_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", sys.path[:])
    return tmp_path


def settings(folder: Path, **told: Any) -> ServerSettings:
    module = next(folder.glob("app_*.py")).stem
    named = {
        k: v.replace("app:", f"{module}:") if isinstance(v, str) else v for k, v in told.items()
    }
    file = folder / "10xgraph.json"
    file.write_text(json.dumps(named))
    made = ServerSettings.read(file)
    prepare_imports(made)
    return made


@pytest.mark.parametrize(
    "told",
    [
        {"agent": "app:compiled"},
        {"agent": "app:nested.graph"},
        {"agent": "app:agent"},
        {"agent": "app:make"},
        {"agent": "app:make_agent"},
        {"agent": "app:factory", "store": "app:store"},
        {"agent": "app:agent", "checkpointer": "app:checkpointer", "store": "app:store"},
        {"agent": "app:agent", "checkpointer": "app:make_checkpointer"},
        {"agent": "app:make", "checkpointer": "app:checkpointer"},
        {"agent": "app:compiled", "checkpointer": "app:checkpointer"},
    ],
)
def test_an_agent_is_named_made_or_compiled(folder: Path, told: dict[str, str]) -> None:
    graph = load_graph(settings(folder, **told))
    assert isinstance(graph, CompiledGraph)
    module = sys.modules[next(folder.glob("app_*.py")).stem]
    if told.get("checkpointer") == "app:checkpointer":
        assert graph.checkpointer is module.checkpointer
    if "store" in told:
        assert graph.store is module.store


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"agent": "app:nowhere"}, r"`agent`: .* has no 'nowhere'"),
        ({"agent": "nowhere:graph"}, r"`agent`: there is no module 'nowhere'"),
        ({"agent": "app:number"}, r"`agent`: .* is int\. It must be a compiled graph"),
        ({"agent": "app:make_later"}, "must not be async"),
        ({"agent": "app:needs"}, "asks for 'checkpointer', which is not named"),
        ({"agent": "app:agent", "checkpointer": "app:store"}, "no BaseCheckpointer"),
        ({"agent": "app:agent", "store": "app:number"}, "no BaseStore"),
        ({"agent": "app:compiled", "store": "app:store"}, "compiled already"),
        ({"agent": "app:compiled", "checkpointer": "app:make_checkpointer"}, "compiled already"),
    ],
)
def test_what_is_not_there_or_not_right_is_named(
    folder: Path, told: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        load_graph(settings(folder, **told))


def test_an_error_inside_of_a_module_is_its_own(folder: Path) -> None:
    next(folder.glob("app_*.py")).write_text("import nowhere_at_all")
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        load_graph(settings(folder, agent="app:graph"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "must hold a JSON object"),
        ("{}", "agent: Field required"),
        ('{"agent": "app"}', "agent: String should match"),
        ('{"agent": "a:b", "chekpointer": "a:c"}', "chekpointer: Extra inputs"),
        ('{"agent": "a:b", "limits": {"recursion_limit": 0}}', "limits.recursion_limit"),
        ('{"agent": "a:b", "limits": {"steps": 1}}', "limits.steps"),
        ('{"agent": "a:b", "max_body_bytes": 1}', "max_body_bytes"),
        ('{"agent": "a:b", "limits": {"max_runs": 0}}', "limits.max_runs"),
        ('{"agent": "a:b", "request_limits": {"max_messages": 0}}', "request_limits.max_messages"),
        ('{"agent": "a:b", "request_limits": {"max_depth": 101}}', "request_limits.max_depth"),
        ('{"agent": "a:b", "request_limits": {"max_files": 1}}', "request_limits.max_files"),
        ('{"agent": "a:b", "allowed_hosts": [""]}', "allowed_hosts"),
        ('{"agent": "a:b", "limits": {"node_timeout": 1e12}}', "limits.node_timeout"),
        ('{"agent": "a:b", "folder": "/etc"}', "folder: Extra inputs"),
    ],
)
def test_a_file_that_says_something_wrong_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "10xgraph.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=said) as refused:
        ServerSettings.read(file)
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.json.*--config"):
        ServerSettings.read(tmp_path / "nowhere.json")


@pytest.mark.parametrize("form", ["dict", "file"])
def test_the_environment_is_set_where_it_says_nothing_yet(
    folder: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENXGRAPH_TEST_SET", "outside")
    monkeypatch.setenv("TENXGRAPH_TEST_NEW", "")
    monkeypatch.delenv("TENXGRAPH_TEST_NEW")
    values = {"TENXGRAPH_TEST_SET": "inside", "TENXGRAPH_TEST_NEW": "a b"}
    (folder / ".env").write_text("\n".join(f'{k}="{v}"' for k, v in values.items()))
    settings(folder, agent="app:agent", env=values if form == "dict" else ".env")
    assert os.environ["TENXGRAPH_TEST_SET"] == "outside"
    assert os.environ["TENXGRAPH_TEST_NEW"] == "a b"


def test_an_env_file_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"`env`: there is no file .*prod\.env"):
        settings(folder, agent="app:agent", env="prod.env")


def test_a_worker_reads_the_file_that_the_environment_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"recursion_limit": 7, "max_runs": 9}
    settings(
        folder,
        agent="app:agent",
        limits=limits,
        request_limits={"max_parts": 8},
        authorization="allow_all",
    )
    monkeypatch.setenv("TENXGRAPH_CONFIG", str(folder / "10xgraph.json"))
    deployment = load_app().state.deployment
    assert deployment.limits.recursion_limit == 7
    assert deployment.limits.max_runs == 9
    assert deployment.request_limits.max_parts == 8
