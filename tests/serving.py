"""A server on a socket of this machine, in the test's own event loop."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.requests import HTTPConnection

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import AgentState
from tenxgraph.server import create_app

ALICE = {"x-user": "alice"}
BOB = {"x-user": "bob"}


def by_header(request: HTTPConnection) -> str | None:
    """Who a proxy in front of the server says it is."""
    return request.headers.get("x-user")


def echo(state: AgentState) -> str:
    return f"You said: {state.context[-1].text()}"


@asynccontextmanager
async def serving(
    served: CompiledGraph[Any] | FastAPI, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that serves a graph, or an application."""
    app = served if isinstance(served, FastAPI) else create_app(served, **options)
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[assignment,method-assign]
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done(), running.exception()
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def events(
    client: httpx.AsyncClient, **body: Any
) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """The events of a run that is streamed, as (name, data)."""
    async with client.stream("POST", "/v1/graph/stream", json=body) as response:
        assert response.status_code == 200, await response.aread()
        yield _events(response)


async def _events(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


class _NoSignals:
    """The test session's own handlers stay."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: Any) -> None: ...


def _no_signals() -> _NoSignals:
    return _NoSignals()
