"""Threads for nodes and tools that block: more than the event loop has for itself."""

import asyncio
import contextvars
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["run_in_thread"]

# asyncio's own are as few as there are processors, and four: not for code that waits for networks.
_THREADS = 64

_pool: ThreadPoolExecutor | None = None


async def run_in_thread(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a function in a thread, with the caller's context variables.

    If this is cancelled, the function goes on to its end, and what it returns is not used.
    """
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tenxgraph-node")
    context = contextvars.copy_context()
    call = functools.partial(context.run, function, **arguments)
    return await asyncio.get_running_loop().run_in_executor(_pool, call)


def _forget_parents() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_parents)
