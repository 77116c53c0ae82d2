"""The application: routes, errors, and a lifespan that closes what was opened."""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.cors import CORSMiddleware

from tenxgraph import __version__
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.server import graph_routes, health_routes, store_routes, thread_routes
from tenxgraph.server.auth import auth_backend
from tenxgraph.server.authorization import authorization as policy
from tenxgraph.server.body_limit import BodyLimit
from tenxgraph.server.deployment import Deployment
from tenxgraph.server.docs_page import docs_router
from tenxgraph.server.head_requests import HeadAsGet
from tenxgraph.server.host_check import HostCheck
from tenxgraph.server.openapi import PROBLEMS, document
from tenxgraph.server.problems import answer
from tenxgraph.server.references import load_graph, prepare_imports
from tenxgraph.server.request_context import RequestContext
from tenxgraph.server.settings import (
    FILE_NAME,
    MOST_BYTES,
    RequestLimits,
    RunLimits,
    ServerSettings,
)
from tenxgraph.server.shutdown import AnswerOnShutdown, OpenRequests, close_in_time

__all__ = ["CONFIG_VARIABLE", "create_app", "load_app"]

CONFIG_VARIABLE = "TENXGRAPH_CONFIG"
"""The environment variable that names the file for `load_app`."""

# Seconds that closing the graph may take. With the default of `--grace` it must be less than
# 30: Kubernetes kills what has not ended by then.
_CLOSING_SECONDS = 13.0


def create_app(
    graph: CompiledGraph[Any],
    *,
    auth: str | Callable[..., Any] | None = None,
    authorization: str | Callable[..., Any] = "ownership",
    limits: RunLimits | None = None,
    request_limits: RequestLimits | None = None,
    cors: Iterable[str] = (),
    allowed_hosts: Iterable[str] | None = None,
    max_body_bytes: int = MOST_BYTES,
) -> FastAPI:
    """An ASGI application that serves a graph; it can be mounted in another one.

    Args:
        graph: what is served. It is closed with the application, as is what it was compiled with.
        auth: see `ServerSettings`, or the backend itself.
        authorization: see `ServerSettings`, or the authorization itself.
        limits: what runs may take.
        request_limits: how many messages, parts and values a request may have.
        cors: origins of web pages that may call the server.
        allowed_hosts: see `ServerSettings`.
        max_body_bytes: how large a request may be.

    Raises:
        SettingsError: `auth` or `authorization` names nothing that can be used.
    """
    requests = OpenRequests()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await close_in_time(graph.aclose, requests, _CLOSING_SECONDS)

    app = FastAPI(
        title="tenxgraph",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        responses=PROBLEMS,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_named,
        # For the documentation: who calls is found out before this is looked at.
        dependencies=[Security(HTTPBearer(auto_error=False))] if auth == "jwt" else [],
    )
    app.state.deployment = Deployment(
        graph,
        auth_backend(auth),
        policy(authorization),
        limits or RunLimits(),
        request_limits or RequestLimits(),
    )
    # The last one added is the first one to see a request.
    app.add_middleware(HeadAsGet)
    app.add_middleware(BodyLimit, most=max_body_bytes)
    origins = list(cors)
    if origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(HostCheck, allowed=allowed_hosts)
    app.add_middleware(AnswerOnShutdown, requests=requests)
    app.add_middleware(RequestContext)
    for kind in (StarletteHTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answered)
    for routes in (health_routes, graph_routes, thread_routes, store_routes):
        app.include_router(routes.router)
    app.include_router(docs_router())
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


def load_app(settings: ServerSettings | None = None) -> FastAPI:
    """The application that settings describe; by default those of a file.

    The file is the one that the environment variable `TENXGRAPH_CONFIG` names, else
    `10xgraph.json` in the working directory: what a worker process is started with.

    Raises:
        SettingsError: the settings name something that is not there, or not what it should be.
    """
    if settings is None:
        settings = ServerSettings.read(os.environ.get(CONFIG_VARIABLE, FILE_NAME))
    prepare_imports(settings)
    return create_app(
        load_graph(settings),
        auth=settings.auth,
        authorization=settings.authorization,
        limits=settings.limits,
        request_limits=settings.request_limits,
        cors=settings.cors,
        allowed_hosts=settings.allowed_hosts,
        max_body_bytes=settings.max_body_bytes,
    )


async def _answered(_request: Request, error: Exception) -> Response:
    return answer(error)


def _named(route: APIRoute) -> str:
    return route.name
