"""Routes for whoever watches over the process. They need no authentication, and tell no data."""

from fastapi import APIRouter, Response

from tenxgraph.server.authorization import Caller
from tenxgraph.server.deployment import Deployed
from tenxgraph.server.json_text import Answer
from tenxgraph.server.problems import answer

__all__ = ["router"]

router = APIRouter(tags=["health"])

_NOBODY = Caller("tenxgraph-health", "owner")


@router.get("/ping", response_model=dict[str, str])
async def ping() -> Response:
    """The process answers."""
    return Answer({"status": "ok"})


@router.get("/health/ready", response_model=dict[str, str])
async def ready(deployment: Deployed) -> Response:
    """The database answers and has its tables; otherwise 503."""
    try:
        await deployment.graph.checkpointer.alist_threads(_NOBODY.config(), limit=1)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
        return answer(error)
    return Answer({"status": "ready"})
