"""Threads for nodes and tools that block: one for each call, so that none waits for another."""

import asyncio
import contextvars
import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

__all__ = ["run_in_thread"]

# Seconds after which a thread ends that has nothing to do.
_IDLE = 10.0


class WorkerThreads:
    """As many threads as there are calls at once; one that is free is used again.

    There is no limit but the system's: a node may run another graph and wait for it, and where
    all threads wait so, none is left for the nodes that they wait for.
    """

    def __init__(self) -> None:
        self._calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]]]()
        self._lock = threading.Lock()
        self._alive = 0
        self._free = 0
        """Threads that wait for a call, less calls that wait for a thread."""

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Have a function called in a thread.

        Where the system gives no more threads, the call waits for one that becomes free.

        Raises:
            RuntimeError: there is none that could.
        """
        future = Future[Any]()
        with self._lock:
            self._free -= 1
            is_short = self._free < 0
        self._calls.put((future, call))
        if is_short and not self._begin_thread():
            future.cancel()
            raise RuntimeError("The system gives no thread for a sync node or tool.")
        return future

    def _begin_thread(self) -> bool:
        """Begin one more thread if that can be; whether there is any."""
        # A daemon: what never returns must not keep the interpreter from ending.
        thread = threading.Thread(target=self._work, name="tenxgraph-node", daemon=True)
        with self._lock:
            self._alive += 1
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._alive -= 1
                return self._alive > 0
        return True

    def _work(self) -> None:
        while self._serve():
            pass

    def _serve(self) -> bool:
        """Carry out the next call; false if there was none for a while, and the thread may end."""
        with self._lock:
            self._free += 1
        while True:
            try:
                future, call = self._calls.get(timeout=_IDLE)
            except Empty:
                if self._leave():
                    return False
            else:
                _carry_out(future, call)
                return True

    def _leave(self) -> bool:
        """Let this thread go, unless a call is on its way to it."""
        with self._lock:
            if self._free <= 0:
                return False
            self._free -= 1
            self._alive -= 1
            return True


def _carry_out(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(_result(call))
    except BaseException as error:  # noqa: BLE001 - told to whoever waits
        future.set_exception(error)
        del future  # or the error's traceback and the future keep each other alive


def _result(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StopIteration as error:
        # No event loop takes one: whoever waits for the call would wait for ever.
        raise RuntimeError(f"A sync function raised {error!r}.") from error


_threads = WorkerThreads()


async def run_in_thread(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a function in a thread, with the caller's context variables.

    If this is cancelled, the function goes on to its end, and what it returns is not used; unless
    it has ended by then. If it has not come to its end when the program ends, it ends with it.
    """
    context = contextvars.copy_context()
    called = _threads.submit(functools.partial(context.run, function, **arguments))
    try:
        return await asyncio.wrap_future(called)
    except asyncio.CancelledError:
        if not called.done() or called.cancelled():
            raise
        # It has ended, and its loop has not heard of it yet: what it has done would be unknown.
        return called.result()


def _forget_parents() -> None:
    """A forked child has none of its parent's threads."""
    global _threads
    _threads = WorkerThreads()


os.register_at_fork(after_in_child=_forget_parents)
