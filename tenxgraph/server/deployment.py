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
from tenxgraph.server.settings import RunLimits
from tenxgraph.storage.store import BaseStore

__all__ = ["Deployed", "Deployment", "Gate", "Gated", "Guarded"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the routes of one application share."""

    graph: CompiledGraph[Any]
    auth: Callable[..., Any]
    authorization: Callable[..., Any]
    limits: RunLimits
    _going_on: set[asyncio.Task[Any]] = field(default_factory=set)

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
    """A route for those who are known, and whose errors are problems.

    Who calls is found out before the body is read: strangers are not listened to.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                request.state.user = await _user(request)
                return await handle(request)
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
