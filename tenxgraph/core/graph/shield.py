"""What must not be cut in half: a cancellation waits until it is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["unbroken"]

R = TypeVar("R")


async def unbroken(work: Coroutine[Any, Any, R]) -> R:
    """Do the work to its end, and only then be cancelled, if somebody has asked for that."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()
        raise
