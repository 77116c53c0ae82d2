"""Routes of the graph: run it, hear it run, stop it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Response
from pydantic.errors import PydanticUserError

from tenxgraph.core.graph import Chunk
from tenxgraph.core.state import Message
from tenxgraph.server.deployment import Deployed, Deployment, Gated, Guarded
from tenxgraph.server.event_stream import Events, EventStream
from tenxgraph.server.json_text import Answer
from tenxgraph.server.openapi import EVENT_STREAM
from tenxgraph.server.problems import BadInputError, missing, problem
from tenxgraph.server.request_context import name_run
from tenxgraph.server.user_messages import build_messages
from tenxgraph.server.wire import (
    GraphDescription,
    RunRequest,
    RunResult,
    StoppedThread,
    StopRequest,
    shown,
)

__all__ = ["router"]

router = APIRouter(prefix="/v1/graph", tags=["graph"], route_class=Guarded)


@router.get("", response_model=GraphDescription)
async def describe_graph(deployment: Deployed, gate: Gated) -> Response:
    """The graph, and the form of its state."""
    await gate.admit("graph:read")
    graph = deployment.graph
    try:
        schema = graph.state_type.model_json_schema()
    except PydanticUserError:  # a field of a type that JSON does not know
        schema = None
    return Answer({"mermaid": graph.draw(), "state_schema": schema})


@router.post("/invoke", response_model=RunResult)
async def invoke_graph(request: RunRequest, deployment: Deployed, gate: Gated) -> Response:
    """Run to the end, to a pause or to a stop.

    A client that goes away does not end the run. Repeated with the same `run_id` it is answered
    with what the run has come to, and 409 while it goes on.
    """
    caller = await gate.admit("graph:run", request.config.thread_id)
    config = _named(request.run_config(caller, deployment.limits))
    messages = await build_messages(request.messages)
    give_back = deployment.slots.take(caller.user_id)
    try:
        output = await _run(deployment, request, messages, config)
    finally:
        give_back()
    state = output["state"]
    told = {
        **output,
        "status": state.execution_meta.status,
        "state": shown(state, with_messages=False),
    }
    return Answer(told)


@router.post(
    "/stream",
    response_class=Response,
    responses={200: {"content": EVENT_STREAM, "description": "Events of the run."}},
)
async def stream_graph(request: RunRequest, deployment: Deployed, gate: Gated) -> Response:
    """Run, and tell what happens, as server-sent events.

    The first is `start`, with `thread_id` and `run_id`; then come `token`, `message`, `update`,
    `custom` and `interrupt`; the last is `end`, with the `status`, or `error`, with a problem.
    """
    caller = await gate.admit("graph:run", request.config.thread_id)
    config = _named(request.run_config(caller, deployment.limits))
    messages = await build_messages(request.messages)
    give_back = deployment.slots.take(caller.user_id)

    def stop() -> None:
        running.cancel()

    def leave() -> None:
        if request.on_disconnect == "stop":
            stop()

    events = Events(_ids(config), on_overflow=leave)
    running = deployment.begin(_tell(deployment, request, messages, config, events))
    # Also of a run that is cancelled before its first step.
    running.add_done_callback(lambda _run: give_back())
    return EventStream(events, on_end=leave, on_shutdown=stop)


@router.post("/stop", response_model=StoppedThread)
async def stop_graph(request: StopRequest, deployment: Deployed, gate: Gated) -> Response:
    """Ask the run on a thread, in whatever process it goes on, to stop. It can go on later."""
    caller = await gate.admit("graph:stop", request.thread_id)
    if not await deployment.graph.astop(caller.config(request.thread_id)):
        raise missing("thread")
    return Answer(StoppedThread(thread_id=request.thread_id))


async def _run(
    deployment: Deployment,
    request: RunRequest,
    messages: list[Message],
    config: dict[str, Any],
    emit: Callable[[Chunk], None] | None = None,
) -> Mapping[str, Any]:
    await _check_message_ids(deployment, request.named_messages(), config)
    return await deployment.graph.ainvoke(request.input(messages), config, emit=emit)


async def _check_message_ids(
    deployment: Deployment, ids: list[str], config: dict[str, Any]
) -> None:
    """A client must not put its own words in the place of the assistant's, or of a tool's.

    Ids that do not exist yet are not known to anybody, so it is enough to look beforehand.
    """
    if not ids:
        return
    for known in await deployment.graph.checkpointer.aget_messages(dict(config), ids):
        if known.role != "user":
            message = f"{known.message_id!r} is a message of the {known.role}'s."
            raise BadInputError(f"message_id: {message}")


async def _tell(
    deployment: Deployment,
    request: RunRequest,
    messages: list[Message],
    config: dict[str, Any],
    events: Events,
) -> None:
    """Run, and tell what happens."""
    told = _Told(events)
    events.put("start", _ids(config))
    try:
        output = await _run(deployment, request, messages, config, emit=told.chunk)
    except asyncio.CancelledError:
        events.put("end", {**_ids(config), "status": "stopped"})
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
        events.put("error", problem(error).model_dump(exclude_none=True))
    else:
        told.rest(output)
        events.put("end", {**_ids(output), "status": output["state"].execution_meta.status})
    finally:
        events.end()


class _Told:
    """Tells a reader of a run, each message and each pause once."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._messages: set[str] = set()

    def chunk(self, chunk: Chunk) -> None:
        """Tell of a chunk, while the run goes on."""
        told: dict[str, Any] = {"node": chunk.node}
        if chunk.type == "token":
            told["text"] = chunk.text
        elif chunk.type == "message":
            told["message"] = chunk.message
            if chunk.message is not None:
                self._messages.add(chunk.message.message_id)
        elif chunk.type == "custom":
            told["data"] = chunk.data
        if chunk.type not in ("interrupt", "end", "error"):  # told with what the run comes to
            self._events.put(chunk.type, told)

    def rest(self, output: Mapping[str, Any]) -> None:
        """Tell of what the answer has and no chunk said: all of it, where a request is repeated."""
        node = output["state"].execution_meta.current_node
        for message in output["messages"]:
            if message.message_id not in self._messages:
                self._events.put("message", {"node": None, "message": message})
        if output["interrupts"]:
            self._events.put("interrupt", {"node": node, "interrupts": output["interrupts"]})


def _named(config: dict[str, Any]) -> dict[str, Any]:
    """Let log records and errors from here on name the run; return its config."""
    name_run(config["thread_id"], config["run_id"])
    return config


def _ids(told: Mapping[str, Any]) -> dict[str, str]:
    """Which run it is."""
    return {name: told[name] for name in ("thread_id", "run_id")}
