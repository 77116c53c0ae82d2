"""The sync API, derived from the async one: every twin runs on one private loop thread.

A twin may be called from plain code, from a thread, and from inside a running event loop (which
it blocks, but never deadlocks, since the work happens on a loop of its own).
"""

import functools
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar

from tenxgraph._loop_thread import loop_thread

__all__ = ["closing_twin", "run_sync", "sync_iterator_twin", "sync_twin"]

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner")

_END = object()


def run_sync(
    function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a coroutine function on the private loop thread; return what it returns or raises.

    The coroutine is made there, too. One that is made here would never be awaited, and Python
    would warn of it, if Ctrl-C came before it is handed over.
    """
    if sys.is_finalizing():
        raise RuntimeError("A sync method was called after the end of the program.")
    runner = loop_thread()
    if runner.is_current:
        message = (
            "A sync method was called from inside the sync API's own loop. Call the method whose "
            "name begins with `a` and await it."
        )
        raise RuntimeError(message)
    return runner.run(functools.partial(function, *args, **kwargs))


def sync_twin(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Owner, P], R]:
    """Make the sync form of an async method; a subclass that overrides the method is followed."""
    name = method.__name__

    @functools.wraps(method, updated=())  # not its mark of being abstract
    def twin(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, Coroutine[Any, Any, R]] = getattr(self, name)
        return run_sync(bound, *args, **kwargs)

    twin.__name__ = name.removeprefix("a")
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Do what `{name}` does, and wait for it."
    return twin


def closing_twin(
    method: Callable[[Owner], Coroutine[Any, Any, None]],
) -> Callable[[Owner], None]:
    """Make the sync form of a method that closes its object, for use in `__del__` as well.

    After the end of the program it does nothing. The loop thread is gone by then, and what it had
    opened is closed: to wait for it would take for ever.
    """
    close = sync_twin(method)

    @functools.wraps(close, updated=())
    def twin(self: Owner, /) -> None:
        if not sys.is_finalizing():
            close(self)

    return twin


def sync_iterator_twin(
    method: Callable[Concatenate[Owner, P], AsyncIterator[R]],
) -> Callable[Concatenate[Owner, P], Generator[R, None, None]]:
    """Make the sync form of an async generator method; it can be closed before its end."""
    name = method.__name__

    @functools.wraps(method, updated=())  # not its mark of being abstract
    def twin(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Generator[R, None, None]:
        iterator: AsyncIterator[R] = getattr(self, name)(*args, **kwargs)

        async def step() -> Any:
            return await anext(iterator, _END)

        try:
            while (item := run_sync(step)) is not _END:
                yield item
        finally:
            close = getattr(iterator, "aclose", None)
            # A step that did not let itself be cancelled goes on, and cannot be closed.
            if close is not None and not getattr(iterator, "ag_running", False):
                run_sync(close)

    twin.__name__ = name.removeprefix("a")
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Do what `{name}` does, item by item, and wait for each."
    return twin
