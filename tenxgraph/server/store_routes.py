"""Routes of the long-term memory: the caller's own memories, and no one else's."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from tenxgraph.server.deployment import Deployed, Gated, Guarded
from tenxgraph.server.fields import Id
from tenxgraph.server.json_text import Answer
from tenxgraph.server.problems import missing, of_clients
from tenxgraph.server.wire import (
    ForgetRequest,
    Forgotten,
    MemoryFields,
    MemoryPage,
    MemoryQuery,
    MemoryUpdate,
    NewMemoryId,
)

__all__ = ["router"]

router = APIRouter(prefix="/v1/store", tags=["store"], route_class=Guarded)

_SCOPE = {"agent_id", "app_id"}


@router.post("/memories", status_code=201, response_model=NewMemoryId)
async def store_memory(memory: MemoryFields, deployment: Deployed, gate: Gated) -> Response:
    """Remember a text."""
    caller = await gate.admit("store:write")
    with of_clients():
        memory_id = await deployment.store().astore(
            memory.scope(caller), **memory.model_dump(exclude=_SCOPE)
        )
    return Answer(NewMemoryId(id=memory_id), status_code=201)


@router.post("/search", response_model=list[dict[str, Any]])
async def search_memories(query: MemoryQuery, deployment: Deployed, gate: Gated) -> Response:
    """The memories that are nearest in meaning, nearest first."""
    caller = await gate.admit("store:read")
    with of_clients():
        found = await deployment.store().asearch(
            query.scope(caller), **query.model_dump(exclude=_SCOPE)
        )
    return Answer(found)


@router.get("/memories", response_model=MemoryPage)
async def list_memories(
    deployment: Deployed,
    gate: Gated,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> Response:
    """All memories, a page at a time, in an order that stays the same."""
    caller = await gate.admit("store:read")
    with of_clients():
        page = await deployment.store().aget_all({"user_id": caller.user_id}, limit, cursor)
    return Answer({"items": page, "cursor": page.cursor})


@router.get("/memories/{memory_id}", response_model=dict[str, Any])
async def get_memory(memory_id: Id, deployment: Deployed, gate: Gated) -> Response:
    """One memory, with where it was learnt."""
    caller = await gate.admit("store:read", memory_id)
    found = await deployment.store().aget({"user_id": caller.user_id}, memory_id)
    if found is None:
        raise missing("memory")
    return Answer(found)


@router.patch("/memories/{memory_id}", status_code=204)
async def update_memory(
    memory_id: Id, memory: MemoryUpdate, deployment: Deployed, gate: Gated
) -> None:
    """Give a memory a new content."""
    caller = await gate.admit("store:write", memory_id)
    scope = {"user_id": caller.user_id}
    with of_clients():
        found = await deployment.store().aupdate(scope, memory_id, **memory.model_dump())
    if not found:
        raise missing("memory")


@router.delete("/memories/{memory_id}", status_code=204)
async def delete_memory(memory_id: Id, deployment: Deployed, gate: Gated) -> None:
    """Delete a memory."""
    caller = await gate.admit("store:delete", memory_id)
    if not await deployment.store().adelete({"user_id": caller.user_id}, memory_id):
        raise missing("memory")


@router.post("/forget", response_model=Forgotten)
async def forget_memories(_request: ForgetRequest, deployment: Deployed, gate: Gated) -> Response:
    """Delete everything that is remembered of the caller, and take back what is only promised."""
    caller = await gate.admit("store:delete")
    deployment.store()
    return Answer(Forgotten(forgotten=await deployment.graph.aforget_memory(caller.config())))
