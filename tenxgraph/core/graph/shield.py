"""What must not be cut in half: a cancellation waits until it is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["over", "unbroken"]

R = TypeVar("R")


async def unbroken(work: Coroutine[Any, Any, R]) -> R:
    """Do the work to its end, and only then be cancelled, however often somebody asks for that."""
    task = asyncio.ensure_future(work)
    try:
        await over(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()
        raise
    return task.result()


async def over(task: "asyncio.Task[Any]") -> None:
    """Wait for the end of a task, and only then be cancelled, however often somebody asks."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error  # some frameworks ask again with every turn of the loop
    if cancelled is not None:
        raise cancelled
