"""What must not be cut in half: a cancellation waits until it is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["unbroken"]

R = TypeVar("R")


async def unbroken(work: Coroutine[Any, Any, R]) -> R:
    """Do the work to its end, and only then be cancelled, however often somebody asks for that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error  # some frameworks ask again with every turn of the loop
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()
    raise cancelled
