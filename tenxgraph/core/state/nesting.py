"""The one limit on nesting, which holds on every backend and however deep the caller's stack is."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state.scalars import MARK, READERS

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
    level, depth = _containers([tree]), 0
    while level:
        depth += 1
        if depth > MAX_DEPTH + levels:
            raise too_deep(path)
        inside: list[Any] = []
        for one in level:
            inside += _contents(one) if isinstance(one, dict) else one
        level = _containers(inside)


def _containers(parts: list[Any]) -> list[Any]:
    """The lists and objects among some values; a tagged scalar is none."""
    return [
        one
        for one in parts
        if isinstance(one, list) or (isinstance(one, dict) and one.get(MARK) not in READERS)
    ]


def _contents(document: dict[str, Any]) -> list[Any]:
    """What is one level deeper; a tag and its lists of pairs are no levels of the value."""
    if MARK not in document:
        return list(document.values())
    inner = document.get("v")
    if document[MARK] == "dict" and isinstance(inner, list):
        return [part for pair in inner if isinstance(pair, list) for part in pair]
    if isinstance(inner, dict):
        return list(inner.values())
    return inner if isinstance(inner, list) else []
