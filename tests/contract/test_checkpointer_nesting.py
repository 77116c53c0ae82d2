"""One limit on nesting, for all that is stored, on every backend."""

import dataclasses
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from backends import Checkpointer
from pydantic import BaseModel
from threads import config, message, present, state

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState, Message, ToolCall, register_type
from tenxgraph.core.state.nesting import MAX_DEPTH
from tenxgraph.storage.checkpointer import ThreadInfo, ToolExecution

T = TypeVar("T")


class Free(AgentState):
    value: Any = None


@register_type
class Link(BaseModel):
    next: Any = None


@register_type
@dataclasses.dataclass
class Item:
    next: Any


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda v: [v],
    "dict": lambda v: {"in": v},
    "tuple": lambda v: (v,),
    "dict of numbers": lambda v: {1: v},
    "model": lambda v: Link(next=v),
    "dataclass": Item,
    "set": lambda v: frozenset([v]),
}


def nested(depth: int, wrap: Callable[[Any], Any] = WRAPPERS["dict"]) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = wrap(value)
    return value


async def from_a_deep_stack(call: Coroutine[Any, Any, T], depth: int = 700) -> T:
    """Await a call from below so many others."""
    return await (from_a_deep_stack(call, depth - 1) if depth else call)


@pytest.mark.parametrize("kind", WRAPPERS)
async def test_a_state_at_the_limit_comes_back_and_a_deeper_one_is_refused(
    kind: str, checkpointer: Checkpointer
) -> None:
    checkpointer.bind_state_type(Free)
    deepest = nested(MAX_DEPTH, WRAPPERS[kind])
    await checkpointer.aput_state(config(), Free(value=deepest))
    assert present(await checkpointer.aget_state(config())).value == deepest
    deeper = Free(value=nested(MAX_DEPTH + 1, WRAPPERS[kind]))
    with pytest.raises(SerializationError, match=r"`state\.value.*nested too deeply") as caught:
        await checkpointer.aput_state(config("other"), deeper)
    assert str(MAX_DEPTH) in str(caught.value)
    assert await checkpointer.aget_thread(config("other")) is None


def puts(kept: Checkpointer, value: dict[str, Any]) -> dict[str, Coroutine[Any, Any, Any]]:
    """Every call that stores something of the caller's."""
    rich = Message(role="user", metadata=value)
    call = Message.assistant(tool_calls=[ToolCall(id="c", name="f", args=value)])
    ran = ToolExecution(message_id="a", position=0, tool_name="f", status="finished", result=value)
    return {
        "state": kept.aput_state(config(), Free(value=value)),
        "metadata": kept.aput_checkpoint(config(), state("a"), metadata=value),
        "thread_meta": kept.aput_state(config("t2", thread_meta=value), state("a")),
        "thread": kept.aput_thread(config(), ThreadInfo(thread_id="t", metadata=value)),
        "message": kept.aput_messages(config(), [rich]),
        "tool call": kept.aput_messages(config(), [call]),
        "tool result": kept.aput_tool_result(config(), ran),
    }


async def test_the_limit_is_the_same_for_everything(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("a"))
    for call in puts(checkpointer, nested(MAX_DEPTH)).values():
        await call
    for name, call in puts(checkpointer, nested(MAX_DEPTH + 1)).items():
        with pytest.raises(SerializationError, match=r"`[a-z_]+.*nested too deeply"):
            await call
        assert name


async def test_the_limit_does_not_depend_on_the_callers_stack(checkpointer: Checkpointer) -> None:
    checkpointer.bind_state_type(Free)
    await checkpointer.aput_state(config(), state("a"))
    deepest = nested(MAX_DEPTH)
    for call in puts(checkpointer, deepest).values():
        await from_a_deep_stack(call)
    read = present(await from_a_deep_stack(checkpointer.aget_state(config("t2"))))
    assert [one.text() for one in read.context] == ["a"]
    thread = present(await from_a_deep_stack(checkpointer.aget_thread(config())))
    assert thread.metadata == deepest
    known = await from_a_deep_stack(checkpointer.aget_tool_result(config(), "a", 0))
    assert present(known).result == deepest
    for call in puts(checkpointer, nested(MAX_DEPTH + 1)).values():
        with pytest.raises(SerializationError, match="nested too deeply"):
            await from_a_deep_stack(call)


async def test_an_export_at_the_limit_is_imported_and_a_deeper_one_is_refused(
    checkpointer: Checkpointer,
) -> None:
    deepest: Any = timedelta(1)
    for _ in range(MAX_DEPTH):
        deepest = (deepest,)
    first = config(thread_meta={"tags": "HERE"})
    await checkpointer.aput_checkpoint(first, Free(value=deepest), [message("b")])
    lines = [line async for line in checkpointer.aexport_thread(config())]
    await checkpointer.aimport_thread(config("copy"), lines)
    checkpointer.bind_state_type(Free)
    assert present(await checkpointer.aget_state(config("copy"))).value == deepest
    deeper = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    edited = [line.replace('"HERE"', deeper) for line in lines]
    with pytest.raises(SerializationError, match=r"thread\.meta.*nested too deeply"):
        await checkpointer.aimport_thread(config("deeper"), edited)
    assert await checkpointer.aget_thread(config("deeper")) is None
