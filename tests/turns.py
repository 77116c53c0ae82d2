"""Turns of a conversation, read and written as the run loop does."""

from typing import Any

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.cache import RedisCache
from tenxgraph.storage.checkpointer import (
    BaseCheckpointer,
    CachedCheckpointer,
    InMemoryCheckpointer,
    StaleStateError,
)

IDS: dict[str, Any] = {"thread_id": "t1", "user_id": "ada"}
KEY = "state_cache:t1:ada"

Cached = CachedCheckpointer[Any]


def cached(
    url: str, behind: Cached | None = None, *, timeout: float = 0.25, ttl: int = 86400, **named: Any
) -> Cached:
    """A checkpointer in memory with a cache; another process's, with the threads of `behind`."""
    durable = InMemoryCheckpointer[Any]()
    if behind is not None:
        durable._backend = behind.durable._backend
    return CachedCheckpointer(durable, RedisCache(url, timeout=timeout, ttl=ttl), **named)


async def read(checkpointer: BaseCheckpointer[Any], config: dict[str, Any]) -> AgentState | None:
    """What a run does first."""
    state: AgentState | None = await checkpointer.aget_state_cache(config)
    return state if state is not None else await checkpointer.aget_state(config)


async def write(
    checkpointer: BaseCheckpointer[Any], config: dict[str, Any], state: AgentState
) -> None:
    """What a run does after a node."""
    await checkpointer.aput_checkpoint(config, state)
    await checkpointer.aput_state_cache(config, state)


async def turn(
    checkpointer: BaseCheckpointer[Any], text: str, ids: dict[str, Any] | None = None
) -> None:
    """One run that adds two messages, in two writes; begun anew if it began with an old state."""
    config = dict(ids or IDS)
    state = await read(checkpointer, config) or AgentState()
    try:
        await _say(checkpointer, config, state, text)
    except StaleStateError:
        state = await checkpointer.aget_state(config) or AgentState()
        await _say(checkpointer, config, state, text)
    await _say(checkpointer, config, state, f"{text}, answered")


async def _say(
    checkpointer: BaseCheckpointer[Any], config: dict[str, Any], state: AgentState, text: str
) -> None:
    state.context = [*state.context, Message.text_message(text)]
    await write(checkpointer, config, state)


def texts(state: AgentState | None) -> list[str] | None:
    """What is said in a state."""
    return None if state is None else [message.text() for message in state.context]


async def texts_in(
    checkpointer: BaseCheckpointer[Any], ids: dict[str, Any] | None = None
) -> list[str] | None:
    """What a run that begins now would know."""
    return texts(await read(checkpointer, dict(ids or IDS)))


def said(*turns: str) -> list[str]:
    """What so many turns leave behind."""
    return [text for one in turns for text in (one, f"{one}, answered")]
