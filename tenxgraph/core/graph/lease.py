"""Who a run is, and whether another run's process is still alive.

A run claims its thread with every write, and renews the claim while a node takes its time. So a
second run keeps off a thread that is being worked on, and takes over one whose process has died: at
once where that can be seen, else when the claim ends.
"""

import os
import socket
from functools import cache
from pathlib import Path
from uuid import uuid4

__all__ = ["ended", "is_dead", "new_holder"]

_PROC = Path("/proc")
# The runs of this process, of which more is known than of those in others.
_at_work: set[str] = set()


def new_holder() -> str:
    """A name for one run: its machine, its process, and itself."""
    pid = os.getpid()
    holder = f"{_machine(pid)}/{pid}/{_started(pid)}/{uuid4().hex}"
    _at_work.add(holder)
    return holder


def ended(holder: str) -> None:
    """Note that a run of this process is over, whether or not it could give its claim back."""
    _at_work.discard(holder)


def is_dead(holder: str) -> bool:
    """Whether another run is known to be over.

    Only a process of this very machine can be looked for; of any other nothing is known, and its
    claim has to end by itself. A process id that was given to a new process has another start.
    """
    machine, pid, started, _run = holder.rsplit("/", 3)
    if machine != _machine(os.getpid()) or not pid.isdigit():
        return False
    if int(pid) == os.getpid() and started == _started(os.getpid()):
        return holder not in _at_work
    return _started(int(pid)) != started


@cache
def _machine(_pid: int) -> str:
    """The host, its boot and its view of process ids, by which containers differ.

    Cached by process, as a forked child may be moved to another namespace.
    """
    return f"{socket.gethostname()}@{_read(_PROC / 'sys/kernel/random/boot_id')[:8]}{_namespace()}"


def _namespace() -> str:
    try:
        return os.readlink(_PROC / "self/ns/pid").strip("pid:")
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty if there is none.

    Where there is no /proc, only whether it is there: `alive`.
    """
    if _PROC.joinpath("self/stat").exists():
        # Behind the command in parentheses, which may have spaces: state, parent, ..., start.
        fields = _read(_PROC / str(pid) / "stat").rpartition(") ")[2].split()
        return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
