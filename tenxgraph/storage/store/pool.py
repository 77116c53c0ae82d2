"""Thread pools that are ready for the end of the interpreter."""

import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ["started_pool"]


def started_pool(count: int, name: str) -> ThreadPoolExecutor:
    """A pool with all of its threads begun.

    Python 3.12.0 to 3.12.2 begin none any more once the main thread is at its end, which is when
    the last promised writes are waited for.
    """
    pool = ThreadPoolExecutor(count, name)
    together = threading.Barrier(count + 1)
    for _ in range(count):
        pool.submit(together.wait)
    together.wait()
    return pool
