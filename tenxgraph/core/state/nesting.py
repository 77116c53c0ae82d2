"""The one limit on nesting, which holds on every backend and however deep the caller's stack is."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tenxgraph.core.exceptions import SerializationError

__all__ = ["MAX_DEPTH", "check_depth", "on_fresh_stack", "too_deep"]

R = TypeVar("R")

MAX_DEPTH = 150
"""How many containers (lists, dicts, models and the like) may be inside of one another.

Python itself stops at a stack of 1,000 calls, of which one level of a value takes up to six.
"""


def too_deep(path: str) -> SerializationError:
    """Make the error of a value that is nested deeper than `MAX_DEPTH`, or contains itself."""
    message = (
        f"`{path}` is nested too deeply, or contains itself: {MAX_DEPTH} lists, dicts and objects "
        "may be inside of one another."
    )
    return SerializationError(message, path=path)


def on_fresh_stack(function: Callable[..., R], *arguments: Any) -> R:
    """Call a function, and again on a stack of its own where the caller's has no room for it."""
    try:
        return function(*arguments)
    except RecursionError:
        result: Future[R] = Future()

    def call() -> None:
        try:
            result.set_result(function(*arguments))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            result.set_exception(error)

    thread = threading.Thread(target=call, name="tenxgraph-nesting")
    thread.start()
    thread.join()
    return result.result()


def check_depth(tree: Any, path: str, levels: int = 0) -> None:
    """Raise `SerializationError` if encoded JSON says a value that is nested too deeply.

    Args:
        tree: the JSON.
        path: what the error calls it.
        levels: of its own that it has around what is a user's.
    """
    level, depth = [tree], 0
    while level:
        inside: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inside += _contents(one)
            elif isinstance(one, list):
                inside += one
        level = [one for one in inside if isinstance(one, dict | list)]
        depth += bool(inside)
        if depth > MAX_DEPTH + levels:
            raise too_deep(path)


def _contents(document: dict[str, Any]) -> list[Any]:
    """What is one level deeper; a tag and its lists of pairs are no levels of the value."""
    if "$t" not in document:
        return list(document.values())
    inner = document.get("v")
    if document["$t"] == "dict" and isinstance(inner, list):
        return [part for pair in inner if isinstance(pair, list) for part in pair]
    if isinstance(inner, dict):
        return list(inner.values())
    return inner if isinstance(inner, list) else []
