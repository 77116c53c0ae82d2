"""The OpenAPI document: what FastAPI derives, with problems, events and exact message parts."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from tenxgraph.core.state.blocks import UnknownBlock
from tenxgraph.server.event_models import EVENTS

__all__ = ["EVENT_STREAM", "PROBLEMS", "document"]

_REFERENCE = "#/components/schemas/{model}"
_STATUSES = {
    400: "The request is malformed, or names another host.",
    401: "Missing or invalid credentials.",
    403: "The caller may not do this.",
    404: "There is no such thing, or it is somebody else's.",
    409: "The thread is in another state than the request needs.",
    413: "The body is too large.",
    415: "The body is not announced as JSON.",
    422: "Something in the request is wrong, or over a limit.",
    429: "Too many runs at the same time.",
    500: "A run, or the server, has failed.",
    503: "A part of the server is away, or it is shutting down.",
}
_REPEAT_AFTER = {
    "Retry-After": {
        "description": "Seconds after which the request may be sent again.",
        "schema": {"type": "integer"},
    }
}


def _problem(status: int, description: str) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model="Problem")}
    told = {"description": description, "content": {"application/problem+json": {"schema": schema}}}
    return told | ({"headers": _REPEAT_AFTER} if status in (429, 503) else {})


PROBLEMS: dict[int | str, dict[str, Any]] = {
    str(status): _problem(status, description) for status, description in _STATUSES.items()
}
"""The answers that every route may give instead of its own."""


def _event(name: str, model: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"const": name},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": _REFERENCE.format(model=model)},
            },
        },
    }


EVENT_STREAM: dict[str, Any] = {
    "text/event-stream": {
        "itemSchema": {"oneOf": [_event(name, model.__name__) for name, model in EVENTS.items()]}
    }
}
"""The content of a stream: which events there are, and the schema of each one's data."""


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            openapi_version=app.openapi_version,
            description=app.description,
            routes=app.routes,
        )
        schemas = made["components"]["schemas"]
        inputs = [(model, "serialization") for model in EVENTS.values()]
        _, events = models_json_schema(inputs, ref_template=_REFERENCE)  # type: ignore[arg-type]
        schemas.update(events["$defs"])
        # Blocks are told apart by their type. Without this, the schema of an unknown block fits
        # every known one, and a known block is never valid against `oneOf`.
        schemas["UnknownBlock"]["properties"]["type"]["not"] = {"enum": sorted(UnknownBlock.KNOWN)}
        app.openapi_schema = made
    return app.openapi_schema
