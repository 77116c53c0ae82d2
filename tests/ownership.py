"""What one user could try with the thread of another."""

from collections.abc import Awaitable, Callable
from typing import Any

from backends import Checkpointer
from threads import Config, message, state

from tenxgraph.storage.checkpointer import ThreadInfo, ToolExecution

EXECUTION = ToolExecution(message_id="secret", position=0, tool_name="f", status="finished")


def of(user_id: Any, thread_id: str = "t", **more: Any) -> Config:
    return {"thread_id": thread_id, "user_id": user_id, **more}


async def exported(checkpointer: Checkpointer, config: Config) -> list[str]:
    return [line async for line in checkpointer.aexport_thread(config)]


async def alices_thread(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(of("alice", thread_name="secret"), state("secret"))
    await checkpointer.aput_tool_result(of("alice"), EXECUTION)


async def everything_of(checkpointer: Checkpointer, user_id: str) -> list[Any]:
    mine = of(user_id)
    return [
        await checkpointer.aget_state(mine),
        await checkpointer.aget_thread(mine),
        await checkpointer.alist_messages(mine),
        await checkpointer.alist_states(mine),
        await checkpointer.alist_tool_results(mine),
        await checkpointer.ais_stop_requested(mine),
    ]


READS: dict[str, Callable[[Checkpointer, Config], Awaitable[Any]]] = {
    "state": lambda c, config: c.aget_state(config),
    "old state": lambda c, config: c.aget_state(config, version=1),
    "cached state": lambda c, config: c.aget_state_cache(config),
    "states": lambda c, config: c.alist_states(config),
    "message": lambda c, config: c.aget_message(config, "secret"),
    "messages": lambda c, config: c.alist_messages(config),
    "last messages": lambda c, config: c.alist_messages(config, last=1),
    "found messages": lambda c, config: c.alist_messages(config, search="secret"),
    "thread": lambda c, config: c.aget_thread(config),
    "tool result": lambda c, config: c.aget_tool_result(config, "secret", 0),
    "tool results": lambda c, config: c.alist_tool_results(config),
    "stop": lambda c, config: c.ais_stop_requested(config),
    "threads": lambda c, config: c.alist_threads(config),
    "found threads": lambda c, config: c.alist_threads(config, search="secret"),
}
WRITES: dict[str, Callable[[Checkpointer, Config], Awaitable[Any]]] = {
    "state": lambda c, config: c.aput_state(config, state("mine")),
    "checkpoint": lambda c, config: c.aput_checkpoint(config, state(), [message("mine")]),
    "messages": lambda c, config: c.aput_messages(config, [message("mine")]),
    "thread": lambda c, config: c.aput_thread(config, ThreadInfo(thread_id="t", thread_name="x")),
    "tool result": lambda c, config: c.aput_tool_result(config, EXECUTION),
}
REMOVALS: dict[str, Callable[[Checkpointer, Config], Awaitable[Any]]] = {
    "thread": lambda c, config: c.aclean_thread(config),
    "message": lambda c, config: c.adelete_message(config, "secret"),
    "state": lambda c, config: c.aclear_state(config),
    "stop": lambda c, config: c.arequest_stop(config),
    "no stop": lambda c, config: c.aclear_stop_request(config),
}
