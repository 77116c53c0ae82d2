"""The import paths that the documents promise, and nothing beside them."""

import importlib
import inspect
import types

import pytest

PROMISED = {
    "tenxgraph": ["__version__"],
    "tenxgraph.core.state": ["AgentState", "ExecutionState", "Message", "TokenUsages", "ToolCall"],
    "tenxgraph.core.graph": [
        "Agent",
        "Chunk",
        "Command",
        "CompiledGraph",
        "ContextWindow",
        "END",
        "START",
        "StateGraph",
        "ToolNode",
        "interrupt",
        "tool",
    ],
    "tenxgraph.storage": ["create_checkpointer"],
    "tenxgraph.storage.checkpointer": [
        "BaseCheckpointer",
        "InMemoryCheckpointer",
        "PgCheckpointer",
        "SqliteCheckpointer",
        "ThreadInfo",
        "create_checkpointer",
    ],
    "tenxgraph.storage.store": ["OpenAIEmbedding", "QdrantStore"],
    "tenxgraph.storage.store.embedding": ["OpenAIEmbedding"],
    "tenxgraph.storage.store.memory_config": [
        "AgentMemoryConfig",
        "MemoryConfig",
        "UserMemoryConfig",
    ],
    "tenxgraph.prebuilt.agent": ["ReactAgent"],
    "tenxgraph.server": ["AuthBackend", "Authorization", "User", "create_app", "load_app"],
    "tenxgraph.prebuilt.tools": ["agent_memory_tool", "memory_tool", "user_memory_tool"],
}
PATHS = [(module, name) for module, names in PROMISED.items() for name in names]


@pytest.mark.parametrize(("module", "name"), PATHS)
def test_a_promised_name_is_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


DOORS = [name for name in PROMISED if name != "tenxgraph"]
PACKAGES = [name for name in DOORS if hasattr(importlib.import_module(name), "__path__")]


def constants_then_classes(name: str) -> tuple[bool, bool, str]:
    """The order in which ruff sorts `__all__`."""
    return not name.isupper(), not name[0].isupper(), name


@pytest.mark.parametrize("door", DOORS)
def test_all_is_sorted_and_every_name_in_it_is_there(door: str) -> None:
    module = importlib.import_module(door)
    assert module.__all__ == sorted(module.__all__, key=constants_then_classes)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name)


@pytest.mark.parametrize("door", PACKAGES)
def test_all_leaves_out_nothing_that_looks_public(door: str) -> None:
    module = importlib.import_module(door)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(module.__all__)


def test_the_core_itself_offers_nothing() -> None:
    core = importlib.import_module("tenxgraph.core")
    offered = {
        name
        for name, value in vars(core).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert offered == set()
