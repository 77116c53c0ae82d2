"""The three memory tools: plain async functions for a model, or for a node of your own.

`config`, `store`, `tool_call_id` and `idempotency_key` are given by the graph, by their names, and
are never shown to the model. The config of a graph's node or tool knows where promises are kept.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tenxgraph.storage.store.base import BaseStore
from tenxgraph.storage.store.memory_config import MemoryConfig
from tenxgraph.storage.store.memory_scope import Config, MemoryScope
from tenxgraph.storage.store.new_record import checked_category
from tenxgraph.storage.store.recall import (
    Caller,
    error_in_json,
    in_json,
    key_or_none,
    search_memories,
    wanted,
    write_memory,
)
from tenxgraph.storage.store.records import (
    MemoryType,
    checked_content,
    checked_metadata,
    checked_write_mode,
)

__all__ = [
    "MemoryTool",
    "agent_memory_tool",
    "bind_agent_memory",
    "bind_user_memory",
    "memory_tool",
    "memory_tools",
    "user_memory_tool",
]

MemoryTool = Callable[..., Awaitable[str]]

T = TypeVar("T", bound=MemoryTool)


def _told_to_the_graph(tool: T) -> T:
    """Say to a `ToolNode`: errors are told in JSON, and calls of one message are in order."""
    vars(tool).update(as_error=error_in_json, in_order=True)
    return tool


@_told_to_the_graph
async def memory_tool(  # noqa: PLR0913, D417 - the model reads this
    action: str = "search",
    query: str = "",
    content: str = "",
    memory_key: str = "",
    memory_id: str = "",
    memory_type: str | None = None,
    category: str | None = None,
    metadata: dict[str, Any] | None = None,
    limit: int = 5,
    score_threshold: float | None = None,
    write_mode: str = "merge",
    *,
    config: Config | None = None,
    store: BaseStore | None = None,
    tool_call_id: str | None = None,
    idempotency_key: str | None = None,
) -> str:
    """Search, store, update or delete long-term memories about the current user.

    Memories outlive the conversation. Search before you store, and store a fact that has one
    current value under a memory_key.

    Args:
        action: "search" (needs query), "store" (needs content), "update" (needs memory_id and
            content) or "delete" (needs memory_id).
        query: What to look for, in natural language.
        content: The text to store, or the new text of an updated memory.
        memory_key: Short snake_case name of the fact, such as "user_name". Storing again under the
            same name updates the memory instead of making a second one.
        memory_id: The id of the memory to update or delete, as a search returned it.
        memory_type: One of "episodic", "semantic", "procedural", "entity", "relationship",
            "custom", "declarative". A search without it looks at all types.
        category: A label to store under, or to search in.
        metadata: Further values to keep with the memory.
        limit: How many memories a search returns at most.
        score_threshold: The lowest score that a search returns, from 0 to 1.
        write_mode: "merge" keeps the metadata that an update does not name, "replace" drops it.
    """

    async def act() -> Any:
        caller = Caller.of(
            lambda: MemoryScope.of_run(config or {}),
            config,
            store,
            tool_call_id=tool_call_id,
            idempotency_key=idempotency_key,
        )
        if action == "search":
            return await search_memories(
                caller,
                wanted("query", query, action),
                memory_type=memory_type,
                category=category,
                limit=limit,
                score_threshold=score_threshold,
            )
        write: dict[str, Any] = {"action": action}
        if action in ("update", "delete"):
            write["memory_id"] = wanted("memory_id", memory_id, action)
        elif action == "store":
            write["memory_type"] = MemoryType.parse(memory_type).value
            write["category"] = checked_category(category)
            write["memory_key"] = key_or_none(memory_key)
        else:
            raise ValueError(f"unknown action {action!r}: use search, store, update or delete")
        if action != "delete":
            write["content"] = checked_content(wanted("content", content, action))
            write["metadata"] = checked_metadata(metadata)
            write["write_mode"] = checked_write_mode(write_mode)
        return await write_memory(caller, **write)

    return await in_json(act())


def bind_user_memory(memory: MemoryConfig) -> MemoryTool:
    """A `user_memory_tool` with the store, scope, labels and limits of a `MemoryConfig`."""
    settings = memory.user_memory

    @_told_to_the_graph
    async def user_memory_tool(  # noqa: PLR0913, D417 - the model reads this
        action: str = "search",
        text: str = "",
        memory_type: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        *,
        config: Config | None = None,
        store: BaseStore | None = None,
        tool_call_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> str:
        """Search what you know about the current user, or remember something new about them.

        Args:
            action: "search" or "remember".
            text: What to look for, or the fact or preference to remember.
            memory_type: One of "episodic", "semantic", "procedural", "entity", "relationship",
                "custom", "declarative". Usually left out.
            category: A label to remember under, or to search in. Usually left out.
            limit: How many memories a search returns at most.
        """

        async def act() -> Any:
            caller = Caller.of(
                lambda: MemoryScope.of_user(config or {}, settings.user_id),
                config,
                memory.store_for(settings, store),
                tool_call_id=tool_call_id,
                idempotency_key=idempotency_key,
            )
            if action not in ("search", "remember"):
                raise ValueError(f"unknown action {action!r}: use search or remember")
            wanted("text", text)
            if action == "search":
                return await search_memories(
                    caller,
                    text,
                    memory_type=memory_type or settings.searched_type,
                    category=category or settings.searched_category,
                    limit=memory.limit_for(settings) if limit is None else limit,
                    score_threshold=memory.threshold_for(settings),
                )
            reply = await write_memory(
                caller,
                action="store",
                content=checked_content(text),
                memory_type=MemoryType.parse(memory_type or settings.memory_type).value,
                category=checked_category(category or settings.category),
            )
            return reply | {"action": action}

        return await in_json(act())

    return user_memory_tool


def bind_agent_memory(memory: MemoryConfig) -> MemoryTool:
    """An `agent_memory_tool` with the store, scope, labels and limits of a `MemoryConfig`."""
    settings = memory.agent_memory

    @_told_to_the_graph
    async def agent_memory_tool(  # noqa: D417 - the model reads this
        query: str,
        memory_type: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        *,
        config: Config | None = None,
        store: BaseStore | None = None,
    ) -> str:
        """Search the knowledge that is shared by all users, such as policies. It is read-only.

        Args:
            query: What to look for, in natural language.
            memory_type: One of "episodic", "semantic", "procedural", "entity", "relationship",
                "custom", "declarative". Usually left out.
            category: A label to search in. Usually left out.
            limit: How many memories the search returns at most.
        """

        async def act() -> Any:
            caller = Caller.of(
                lambda: MemoryScope.of_shared(config or {}, settings.agent_id, settings.app_id),
                config,
                memory.store_for(settings, store),
            )
            return await search_memories(
                caller,
                wanted("query", query, "search"),
                memory_type=memory_type or settings.searched_type,
                category=category or settings.searched_category,
                limit=memory.limit_for(settings) if limit is None else limit,
                score_threshold=memory.threshold_for(settings),
            )

        return await in_json(act())

    return agent_memory_tool


user_memory_tool = bind_user_memory(MemoryConfig())
agent_memory_tool = bind_agent_memory(MemoryConfig())


def memory_tools(memory: MemoryConfig) -> list[MemoryTool]:
    """The tools an agent with this memory is given: none unless the model searches by itself."""
    if memory.retrieval_mode != "postload":
        return []
    tools = [bind_user_memory(memory)] if memory.user_memory.enabled else []
    return tools + ([bind_agent_memory(memory)] if memory.agent_memory.enabled else [])
