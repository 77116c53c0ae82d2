"""Request bodies: parse JSON strictly, and refuse what is over a limit before models are built."""

import json
import math
from collections import Counter
from typing import Any

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from tenxgraph.server.settings import FILE_NAME, RequestLimits

__all__ = ["JsonRequest", "is_json", "parse"]

# Parsing this much takes about a millisecond. More is parsed in a worker thread, so that the event
# loop goes on answering other requests.
_SMALL = 64 * 1024
# The largest double has 309 digits; a longer integer cannot be read by most JSON libraries.
_MOST_DIGITS = 308


class JsonRequest(Request):
    """A request whose JSON body is parsed strictly and within limits."""

    limits = RequestLimits()

    async def json(self) -> Any:
        """Return the body's JSON value.

        Raises:
            HTTPException: 422, the body is not valid JSON or is over a limit.
        """
        body = await self.body()
        if len(body) <= _SMALL:
            return parse(body, self.limits)
        return await run_in_threadpool(parse, body, self.limits)


def is_json(content_type: str) -> bool:
    """True if a `Content-Type` header names JSON."""
    name = content_type.partition(";")[0].strip().lower()
    return name == "application/json" or (
        name.startswith("application/") and name.endswith("+json")
    )


def parse(body: bytes, limits: RequestLimits) -> Any:
    """Return the JSON value in a body.

    Duplicate keys, `NaN`, `Infinity` and numbers that no double can hold are refused: programs
    that read such a body differ in what they make of it.

    Raises:
        HTTPException: 422, the body is not valid JSON or is over a limit.
    """
    reader = _Reader(limits.max_values)
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=reader.object,
            parse_int=reader.integer,
            parse_float=reader.float,
            parse_constant=reader.constant,
        )
    except UnicodeDecodeError as error:
        raise _refused(f"is not valid UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise _over("is nested too deep", "max_depth", limits.max_depth) from error
    except ValueError as error:
        raise _refused(f"is not valid JSON: {error}") from error
    _check_messages(value, limits)
    _check_structure(value, limits)
    return value


def _check_messages(value: Any, limits: RequestLimits) -> None:
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        return
    if len(messages) > limits.max_messages:
        raise _over(f"has {len(messages)} messages", "max_messages", limits.max_messages)
    contents = [one.get("content") for one in messages if isinstance(one, dict)]
    parts = sum(len(content) for content in contents if isinstance(content, list))
    if parts > limits.max_parts:
        raise _over(f"has {parts} content parts", "max_parts", limits.max_parts)


def _check_structure(value: Any, limits: RequestLimits) -> None:
    """Check the number of values and the depth, level by level and without recursion."""
    level, depth, values = [value], 0, 1
    while containers := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        values += sum(map(len, containers))
        if values > limits.max_values:
            raise _over(f"has {values} JSON values or more", "max_values", limits.max_values)
        if depth > limits.max_depth:
            words = f"is nested more than {limits.max_depth} deep"
            raise _over(words, "max_depth", limits.max_depth)
        level = [
            item for one in containers for item in (one.values() if isinstance(one, dict) else one)
        ]


class _Reader:
    """Reads objects and numbers, and stops at more of them than a body may have values.

    Without the count, a body of a million numbers would be read to its end before it is refused.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._read = 0

    def object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._count()
        made = dict(pairs)
        if len(made) < len(pairs):
            times = Counter(key for key, _ in pairs)
            (twice, _), *_ = times.most_common(1)
            raise ValueError(f"the key {twice[:80]!r} occurs twice in an object")
        return made

    def integer(self, digits: str) -> int:
        self._count()
        if len(digits) > _MOST_DIGITS:
            raise ValueError(f"a number of {len(digits)} digits is too large")
        return int(digits)

    def float(self, digits: str) -> float:
        self._count()
        number = float(digits)
        if not math.isfinite(number):
            raise ValueError(f"the number {digits[:40]} is too large")
        return number

    def constant(self, name: str) -> Any:
        raise ValueError(f"{name} is no JSON value")

    def _count(self) -> None:
        self._read += 1
        if self._read > self._most:
            raise _over(f"has more than {self._most} JSON values", "max_values", self._most)


def _over(words: str, setting: str, limit: int) -> HTTPException:
    name = f"`request_limits.{setting}` in {FILE_NAME}"
    return _refused(f"{words}; at most {limit} are allowed ({name})")


def _refused(words: str) -> HTTPException:
    return HTTPException(422, f"body: {words}.")
