"""Routes of threads: their records, states and messages."""

import json
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Query, Response

from tenxgraph.core.state import Message
from tenxgraph.server.authorization import Caller
from tenxgraph.server.deployment import Deployed, Deployment, Gated, Guarded
from tenxgraph.server.fields import Id, ThreadId
from tenxgraph.server.json_text import Answer
from tenxgraph.server.problems import BadInputError, missing, of_clients
from tenxgraph.server.wire import (
    ForkRequest,
    MessagePage,
    StateVersion,
    ThreadFields,
    ThreadPage,
    shown,
)
from tenxgraph.storage.checkpointer import StateSnapshot, ThreadInfo
from tenxgraph.storage.scope import STATE_TYPE_KEY, VERSION_KEY

__all__ = ["router"]

router = APIRouter(prefix="/v1/threads", tags=["threads"], route_class=Guarded)

Limit = Annotated[int, Query(ge=1, le=1000)]
Version = Annotated[int | None, Query(ge=0, le=2**63 - 1)]


@router.get("", response_model=ThreadPage)
async def list_threads(
    deployment: Deployed,
    gate: Gated,
    search: str | None = None,
    metadata: Annotated[str | None, Query(description="A JSON object of values to match.")] = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> Response:
    """The caller's threads, last changed first."""
    caller = await gate.admit("threads:read")
    wanted = _filter(metadata)
    with of_clients():
        page = await deployment.graph.checkpointer.alist_threads(
            caller.config(), search, limit=limit, filter=wanted, cursor=cursor
        )
    return Answer({"items": page, "cursor": page.cursor if len(page) == limit else None})


@router.get("/{thread_id}", response_model=ThreadInfo)
async def get_thread(thread_id: ThreadId, deployment: Deployed, gate: Gated) -> Response:
    """A thread's record."""
    caller = await gate.admit("threads:read", thread_id)
    return Answer(await _thread(deployment, caller, thread_id))


@router.put("/{thread_id}", response_model=ThreadInfo)
async def put_thread(
    thread_id: ThreadId, fields: ThreadFields, deployment: Deployed, gate: Gated
) -> Response:
    """Make a thread, or change its name and metadata where they are given."""
    caller = await gate.admit("threads:write", thread_id)
    info = ThreadInfo(thread_id=thread_id, **fields.model_dump())
    with of_clients():
        await deployment.graph.checkpointer.aput_thread(caller.config(thread_id), info)
    return Answer(await _thread(deployment, caller, thread_id))


@router.delete("/{thread_id}", status_code=204)
async def delete_thread(thread_id: ThreadId, deployment: Deployed, gate: Gated) -> None:
    """Delete a thread with all its data."""
    caller = await gate.admit("threads:delete", thread_id)
    if not await deployment.graph.checkpointer.aclean_thread(caller.config(thread_id)):
        raise missing("thread")


@router.get("/{thread_id}/state", response_model=StateVersion)
async def get_state(
    thread_id: ThreadId, deployment: Deployed, gate: Gated, version: Version = None
) -> Response:
    """The newest state, or a kept older one, with its version."""
    caller = await gate.admit("threads:read", thread_id)
    config = {**caller.config(thread_id), STATE_TYPE_KEY: deployment.graph.state_type}
    state = await deployment.graph.checkpointer.aget_state(config, version)
    if state is None:
        raise missing("thread" if version is None else "version")
    number = config[VERSION_KEY] if version is None else version
    return Answer({"thread_id": thread_id, "version": number, "state": shown(state)})


@router.get("/{thread_id}/states", response_model=list[StateSnapshot])
async def list_states(
    thread_id: ThreadId,
    deployment: Deployed,
    gate: Gated,
    limit: Limit = 50,
    before: Version = None,
) -> Response:
    """The kept versions, newest first."""
    caller = await gate.admit("threads:read", thread_id)
    config = caller.config(thread_id)
    found = await deployment.graph.checkpointer.alist_states(config, limit, before)
    if not found:
        await _thread(deployment, caller, thread_id)
    return Answer(found)


@router.get("/{thread_id}/messages", response_model=MessagePage)
async def list_messages(
    thread_id: ThreadId,
    deployment: Deployed,
    gate: Gated,
    search: str | None = None,
    limit: Annotated[int | None, Query(ge=1, le=1000, description="100 by default.")] = None,
    last: Annotated[int | None, Query(ge=1, le=1000)] = None,
    cursor: str | None = None,
) -> Response:
    """The thread's messages, oldest first; with `last`, the newest so many."""
    caller = await gate.admit("threads:read", thread_id)
    most = limit or (100 if last is None else None)
    with of_clients():
        page = await deployment.graph.checkpointer.alist_messages(
            caller.config(thread_id), search, limit=most, last=last, after=cursor
        )
    if not page:
        await _thread(deployment, caller, thread_id)
    more = last is None and len(page) == most
    return Answer({"items": page, "cursor": page.cursor if more else None})


@router.get("/{thread_id}/messages/{message_id:path}", response_model=Message)
async def get_message(
    thread_id: ThreadId, message_id: Id, deployment: Deployed, gate: Gated
) -> Response:
    """One message, as it was last written."""
    caller = await gate.admit("threads:read", thread_id)
    return Answer(await _message(deployment, caller, thread_id, message_id))


@router.delete("/{thread_id}/messages/{message_id:path}", status_code=204)
async def delete_message(
    thread_id: ThreadId, message_id: Id, deployment: Deployed, gate: Gated
) -> None:
    """Delete a message of the user's; states are read without it from now on."""
    caller = await gate.admit("threads:delete", thread_id)
    message = await _message(deployment, caller, thread_id, message_id)
    if message.role != "user":
        # What a tool has done, and what the assistant has said, is no client's to undo.
        raise BadInputError(f"message_id: {message_id!r} is a message of the {message.role}'s.")
    config = caller.config(thread_id)
    await deployment.graph.checkpointer.adelete_message(config, message_id)


@router.post("/{thread_id}/fork", status_code=201, response_model=ThreadInfo)
async def fork_thread(
    thread_id: ThreadId, fork: ForkRequest, deployment: Deployed, gate: Gated
) -> Response:
    """Begin a new thread with a state of this one."""
    new = fork.thread_id or uuid4().hex
    caller = await gate.admit("threads:read", thread_id)
    await gate.admit("threads:write", fork.thread_id)
    with of_clients():
        await deployment.graph.checkpointer.afork_thread(
            caller.config(thread_id), new, fork.version
        )
    return Answer(await _thread(deployment, caller, new), status_code=201)


async def _thread(deployment: Deployment, caller: Caller, thread_id: str) -> ThreadInfo:
    found = await deployment.graph.checkpointer.aget_thread(caller.config(thread_id))
    if found is None:
        raise missing("thread")
    return found


async def _message(
    deployment: Deployment, caller: Caller, thread_id: str, message_id: str
) -> Message:
    config = caller.config(thread_id)
    with of_clients():
        found = await deployment.graph.checkpointer.aget_message(config, message_id)
    if found is None:
        raise missing("message")
    return found


def _filter(metadata: str | None) -> dict[str, Any] | None:
    if metadata is None:
        return None
    try:
        told = json.loads(metadata)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise BadInputError('metadata: must be a JSON object, such as {"plan": "pro"}.')
    return told
