"""Who a run is, and whether another run is still at work.

A run claims its thread with every write, and renews the claim while a node takes its time. So a
second run keeps off a thread that is being worked on, and takes over one whose run is over: at
once where that can be seen, else when the claim has run out.

It can be seen on one machine, where each run holds a lock for as long as it is at work and its
process lives. A process id would not do: it may be given to a new process, and containers count
theirs from 1. Whoever does not share the lock file is taken for another machine.
"""

import os
import socket
from uuid import uuid4

from tenxgraph.core.graph.lock_file import LockFile

__all__ = ["ended", "is_alive", "new_holder"]

_locks = LockFile()
# The runs of this process, which cannot see its own locks.
_at_work: set[str] = set()
os.register_at_fork(after_in_child=_at_work.clear)


def new_holder() -> str:
    """A name for one run: its machine, its process, where its lock is, and itself."""
    run = uuid4().hex
    holder = f"{socket.gethostname()}/{os.getpid()}/{_locks.lock(_byte(run))}/{run}"
    _at_work.add(holder)
    return holder


def ended(holder: str) -> None:
    """Note that a run of this process is over, whether or not it could give its claim back."""
    if holder in _at_work:
        _at_work.discard(holder)
        _locks.unlock(_byte(holder.rpartition("/")[2]))


def is_alive(holder: str) -> bool | None:
    """Whether another run is at work; `None` where that cannot be seen from here.

    One that keeps its event loop from turning, and so does not renew its claim, is at work, too.
    """
    if holder in _at_work:
        return True
    host, _pid, place, run = holder.rsplit("/", 3)
    if (host, place) != (socket.gethostname(), _locks.place()):
        return None
    return _locks.is_locked(_byte(run))


def _byte(run: str) -> int:
    """Which byte is a run's, among so many that no two runs have the same."""
    return int(run[:15], 16)
