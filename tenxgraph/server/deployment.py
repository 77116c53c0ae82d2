"""Deployment: a graph that is served, and the gate before it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException as StarletteHTTPException

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.server.auth import User, call, identified
from tenxgraph.server.authorization import Action, Caller
from tenxgraph.server.problems import answer
from tenxgraph.server.request_body import JsonRequest, is_json
from tenxgraph.server.run_slots import RunSlots
from tenxgraph.server.settings import RequestLimits, RunLimits
from tenxgraph.storage.store import BaseStore

__all__ = ["Deployed", "Deployment", "Gate", "Gated", "Guarded"]


_WITH_BODY = ("POST", "PUT", "PATCH")
_SEND_JSON = "Send a JSON object, with the header `content-type: application/json`."


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the routes of one application share."""

    graph: CompiledGraph[Any]
    auth: Callable[..., Any]
    authorization: Callable[..., Any]
    limits: RunLimits
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    slots: RunSlots = field(init=False)
    _going_on: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Make the slots that the limits allow."""
        slots = RunSlots(self.limits.max_runs, self.limits.max_runs_per_user)
        object.__setattr__(self, "slots", slots)  # the way of a frozen dataclass

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do work that may outlive the request that asked for it."""
        task = asyncio.ensure_future(work)
        # An event loop holds its tasks weakly.
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        return task

    def store(self) -> BaseStore:
        """The long-term memory.

        Raises:
            HTTPException: 404, the graph has none.
        """
        if not isinstance(self.graph.store, BaseStore):
            raise HTTPException(404, "The graph has no long-term memory.")
        return self.graph.store


class Guarded(APIRoute):
    """A route for known callers, whose errors are problems.

    The caller is identified before the body is read. A POST without a JSON body is refused: a web
    page of somebody else can send a form or plain text here, but JSON only with permission (CORS).
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                request.state.user = await _user(request)
                if request.method in _WITH_BODY and not is_json(_content_type(request)):
                    raise HTTPException(415, _SEND_JSON)
                return await handle(_within_limits(request))
            except (StarletteHTTPException, RequestValidationError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
                return answer(error)

        return guarded


class Gate:
    """Lets the sender of a request do what an authorization allows."""

    def __init__(self, user: User, authorization: Callable[..., Any]) -> None:
        self._user = user
        self._authorization = authorization

    async def admit(self, action: Action, resource_id: str | None = None) -> Caller:
        """Who calls, and how far that reaches.

        Raises:
            HTTPException: 403, the caller may not do this.
        """
        reach = await call(self._authorization, self._user, action, resource_id)
        if reach is False:
            raise HTTPException(403, f"{self._user.user_id!r} may not do this: {action}.")
        if reach not in ("owner", "none"):
            raise TypeError(f"The authorization returned {reach!r}: no 'owner', 'none' or False.")
        return Caller(self._user.user_id, reach, self._user.claims)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "")


def _within_limits(request: Request) -> Request:
    limited = JsonRequest(request.scope, request.receive)
    limited.limits = _deployed(request).request_limits
    return limited


async def _user(request: Request) -> User:
    deployment: Deployment = request.app.state.deployment
    user = await identified(deployment.auth, request)
    if user is None:
        headers = {"WWW-Authenticate": "Bearer"}
        raise HTTPException(401, "The request says in no valid way who sends it.", headers)
    return user


def _deployed(request: Request) -> Deployment:
    deployment: Deployment = request.app.state.deployment
    return deployment


Deployed = Annotated[Deployment, Depends(_deployed)]
"""The deployment, for a route."""


def _gate(request: Request, deployment: Deployed) -> Gate:
    return Gate(request.state.user, deployment.authorization)


Gated = Annotated[Gate, Depends(_gate)]
"""The gate, for a route."""
