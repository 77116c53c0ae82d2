"""Problems: errors as answers, in the form of RFC 9457 (`application/problem+json`)."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from tenxgraph.core.exceptions import (
    GraphRecursionError,
    InputError,
    NodeError,
    PendingInterruptError,
    RunInProgressError,
    SchemaVersionError,
    StaleStateError,
    StorageError,
    StoreError,
    ThreadOwnershipError,
    TransientStorageError,
)
from tenxgraph.server.auth import AuthUnavailableError
from tenxgraph.server.json_text import Answer
from tenxgraph.server.request_context import current_ids

__all__ = [
    "BadInputError",
    "Problem",
    "TooManyRunsError",
    "answer",
    "missing",
    "of_clients",
    "problem",
]

logger = logging.getLogger("tenxgraph.server")

_NO_SUCH = "There is no such thread or version, or it is not yours."
_AWAY = "A part of the server is away. Nothing is lost: try again."
_NOT_SET_UP = "The database is not set up for this version. It takes `tenxgraph setup`."
_WORDS = {
    "model_attributes_type": "send a JSON object, with the header `content-type: application/json`",
    "json_invalid": "is no JSON",
}
_HTTP_CODES = {
    400: "bad_input",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "thread_exists",
    413: "too_large",
    415: "unsupported_media_type",
    422: "bad_input",
    503: "shutting_down",
}
_MAY_BE_REPEATED = (429, 503)


class BadInputError(Exception):
    """The request asks for what cannot be."""


class TooManyRunsError(Exception):
    """A user, or the process, has as many runs as it may have at the same time."""


class Problem(BaseModel):
    """What has gone wrong.

    Attributes:
        title: the status in words.
        status: the status.
        code: a short, stable name for the cause, for programs.
        detail: what it was, for people.
        error_id: under what the server's log has it, where it went wrong inside.
        request_id: the request, as the log names it.
        thread_id: the thread of the run that it happened to.
        run_id: that run.
    """

    title: str
    status: int
    code: str
    detail: str
    error_id: str | None = None
    request_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None


_KNOWN: tuple[tuple[type[Exception], int, str, str | None], ...] = (
    (BadInputError, 422, "bad_input", None),
    (InputError, 422, "bad_input", None),
    (TooManyRunsError, 429, "too_many_runs", None),
    (
        RunInProgressError,
        409,
        "run_in_progress",
        "A run is at work on the thread. Wait or stop it.",
    ),
    (StaleStateError, 409, "stale_state", "Another run was first. Read the thread, and repeat."),
    (PendingInterruptError, 409, "pending_interrupt", "The thread waits for an answer: `resume`."),
    (ThreadOwnershipError, 404, "not_found", _NO_SUCH),
    (TransientStorageError, 503, "transient", _AWAY),
    (SchemaVersionError, 503, "schema_version", _NOT_SET_UP),
    (StoreError, 503, "store_unavailable", _AWAY),
    (AuthUnavailableError, 503, "auth_unavailable", _AWAY),
    (GraphRecursionError, 500, "recursion_limit", None),
    (NodeError, 500, "node_error", None),
    (Exception, 500, "internal_error", "Something went wrong in the server."),
)
"""The first that fits: its status and code, and what is said where not its own words are."""


def missing(what: str) -> HTTPException:
    """What is answered where there is no such thing, or it is somebody else's."""
    return HTTPException(404, f"There is no such {what}, or it is not yours.")


@contextmanager
def of_clients() -> Iterator[None]:
    """Where only a client's words are checked: what is wrong with them is told to the client."""
    try:
        yield
    except ValueError as error:
        raise BadInputError(str(error)) from error
    except StorageError as error:
        if error.code == "not_found":
            raise HTTPException(404, _NO_SUCH) from error
        if error.code == "thread_exists":
            raise HTTPException(409, "There is a thread of that id already.") from error
        raise


def problem(error: Exception) -> Problem:
    """An error as a client is told of it.

    What the client can mend is told. What went wrong inside is told to the log, under an id that
    the client gets.
    """
    if isinstance(error, StarletteHTTPException):
        code = _HTTP_CODES.get(error.status_code, "http_error")
        return _problem(error.status_code, code, str(error.detail))
    if isinstance(error, RequestValidationError):
        return _problem(422, "bad_input", _said_of(error))
    _, status, code, words = next(known for known in _KNOWN if isinstance(error, known[0]))
    if status < 500:
        return _problem(status, code, words or str(error))
    error_id = uuid4().hex
    # What is away says all there is to know, and as often as somebody asks.
    trace = None if status == 503 else error
    logger.error("Error %s: %s: %s", error_id, type(error).__name__, error, exc_info=trace)
    if isinstance(error, NodeError):
        words = f"Node {error.node!r} failed. The thread is as it was before it, and can go on."
    return _problem(status, code, words or str(error), error_id)


def answer(error: Exception) -> Answer:
    """Return the answer to a request that came to an error."""
    told = problem(error)
    headers = dict(getattr(error, "headers", None) or {})
    if told.status in _MAY_BE_REPEATED:
        headers["Retry-After"] = "1"
    body = told.model_dump(exclude_none=True)
    return Answer(body, told.status, headers, media_type="application/problem+json")


def _problem(status: int, code: str, detail: str, error_id: str | None = None) -> Problem:
    title = HTTPStatus(status).phrase
    return Problem(
        title=title,
        status=status,
        code=code,
        detail=detail,
        error_id=error_id,
        **current_ids(),
    )


def _said_of(error: RequestValidationError) -> str:
    """What is wrong with a request, and where in it."""
    return "; ".join(
        f"{'.'.join(_plain(one['loc']))}: {_WORDS.get(one['type'], one['msg'])}"
        for one in error.errors()
    )


def _plain(place: Sequence[Any]) -> list[str]:
    """Where something is, without the names that only pydantic knows."""
    return [str(part) for part in place if not re.search(r"[\[(-]", str(part))]
