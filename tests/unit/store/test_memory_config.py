"""How an agent's memory is set up: defaults, look-up order, and what is refused."""

import inspect

import pytest

from tenxgraph.prebuilt.tools import memory_tools
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.storage.store.memory_config import (
    AgentMemoryConfig,
    MemoryConfig,
    UserMemoryConfig,
)
from tenxgraph.storage.store.prompt import memory_prompt
from tenxgraph.testing import HashEmbedding


def store() -> InMemoryStore:
    return InMemoryStore(HashEmbedding())


def names(memory: MemoryConfig) -> list[str]:
    return [tool.__name__ for tool in memory_tools(memory)]


def test_the_defaults() -> None:
    memory = MemoryConfig()
    assert memory.store is None
    assert (memory.retrieval_mode, memory.limit, memory.score_threshold) == ("postload", 5, 0.0)
    assert memory.inject_system_prompt
    assert (memory.user_memory.enabled, memory.agent_memory.enabled) == (True, False)
    for scope in (memory.user_memory, memory.agent_memory):
        assert (scope.memory_type, scope.category) == ("episodic", "general")
        assert (memory.limit_for(scope), memory.threshold_for(scope)) == (5, 0.0)
        assert (scope.searched_type, scope.searched_category) == (None, None)


def test_tools_are_registered_by_mode_and_by_scope() -> None:
    both = {"agent_memory": AgentMemoryConfig(enabled=True)}
    assert names(MemoryConfig()) == ["user_memory_tool"]
    assert names(MemoryConfig(**both)) == ["user_memory_tool", "agent_memory_tool"]
    assert names(MemoryConfig(user_memory=UserMemoryConfig(enabled=False))) == []
    assert names(MemoryConfig(retrieval_mode="preload", **both)) == []
    assert names(MemoryConfig(retrieval_mode="no_retrieval", **both)) == []


def test_the_model_sees_the_parameters_of_the_spec() -> None:
    user, agent = memory_tools(MemoryConfig(agent_memory=AgentMemoryConfig(enabled=True)))

    def shown(tool: object) -> dict[str, object]:
        parameters = inspect.signature(tool).parameters.values()  # type: ignore[arg-type]
        return {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}

    assert shown(user) == {
        "action": "search",
        "text": "",
        "memory_type": None,
        "category": None,
        "limit": None,
    }
    assert shown(agent) == {
        "query": inspect.Parameter.empty,
        "memory_type": None,
        "category": None,
        "limit": None,
    }


def test_a_store_is_looked_up_in_the_scope_then_the_config_then_the_graph() -> None:
    of_scope, of_config, of_graph = store(), store(), store()
    scope = UserMemoryConfig(store=of_scope)
    assert MemoryConfig(store=of_config).store_for(scope, of_graph) is of_scope
    assert MemoryConfig(store=of_config).store_for(UserMemoryConfig(), of_graph) is of_config
    assert MemoryConfig().store_for(UserMemoryConfig(), of_graph) is of_graph
    assert MemoryConfig().store_for(UserMemoryConfig(), None) is None


def test_limits_and_thresholds_are_inherited() -> None:
    memory = MemoryConfig(limit=7, score_threshold=0.2)
    assert memory.limit_for(UserMemoryConfig()) == 7
    assert memory.limit_for(UserMemoryConfig(limit=10)) == 10
    assert memory.threshold_for(UserMemoryConfig()) == 0.2
    assert memory.threshold_for(UserMemoryConfig(score_threshold=0.0)) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"retrieval_mode": "sometimes"},
        {"limit": 0},
        {"limit": 10**9},
        {"score_threshold": 1.5},
        {"user_memory": {"enabled": True, "limit": -1}},
        {"agent_memory": {"user_id": "alice"}},
        {"store": "./memory_db"},
        {"retreival_mode": "preload"},
    ],
)
def test_a_mistake_is_refused_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MemoryConfig(**wrong)


def test_the_prompt_speaks_of_the_tools_there_are() -> None:
    assert "user_memory_tool" in memory_prompt(MemoryConfig())
    assert "agent_memory_tool" not in memory_prompt(MemoryConfig())
    both = MemoryConfig(agent_memory=AgentMemoryConfig(enabled=True))
    assert "agent_memory_tool" in memory_prompt(both)
    assert memory_prompt(MemoryConfig(inject_system_prompt=False)) == ""
    assert memory_prompt(MemoryConfig(retrieval_mode="preload")) == ""


@pytest.mark.parametrize("value", ["", " ", "\t\n", True, 1.5, ["alice"], "a\x00b", "x" * 256])
def test_an_id_that_is_no_id_is_refused_when_it_is_configured(value: object) -> None:
    with pytest.raises(ValueError, match="user_id"):
        UserMemoryConfig(user_id=value)
    with pytest.raises(ValueError, match="agent_id"):
        AgentMemoryConfig(agent_id=value, app_id="shop")
    with pytest.raises(ValueError, match="app_id"):
        AgentMemoryConfig(agent_id="sales", app_id=value)


def test_a_number_as_configured_id_is_its_text() -> None:
    assert UserMemoryConfig(user_id=42).user_id == "42"
    assert AgentMemoryConfig(app_id=0).app_id == "0"
