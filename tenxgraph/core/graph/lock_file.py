"""LockFile: one byte for each run at work, which the kernel takes back when its process dies."""

import errno
import fcntl
import os
import tempfile
from pathlib import Path

__all__ = ["LockFile"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TAKEN = (errno.EACCES, errno.EAGAIN)


class LockFile:
    """An empty file in the folder for temporary ones, shared by all processes of a user.

    What is locked need not be there. A file is never closed: with it would go every lock that the
    process has on it.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        self._place = ""

    def place(self) -> str:
        """Which file, on which boot of the machine; empty where there can be none."""
        try:
            # Daemons close all that is open when they begin.
            if self._descriptor < 0 or _place(self._descriptor) != self._place:
                self._descriptor = _opened()
                self._place = _place(self._descriptor)
        except OSError:
            self._descriptor, self._place = -1, ""
        return self._place

    def lock(self, byte: int) -> str:
        """Take a byte for this process, and say where it is; nowhere, if it cannot be had."""
        place = self.place()
        return place if place and self._try(fcntl.LOCK_EX | fcntl.LOCK_NB, byte) else ""

    def unlock(self, byte: int) -> None:
        """Give a byte back."""
        if self.place():
            self._try(fcntl.LOCK_UN, byte)

    def is_locked(self, byte: int) -> bool | None:
        """Whether another process has a byte; `None` where nobody can tell."""
        # A shared lock, so that two who look at the same time do not see each other.
        free = self._try(fcntl.LOCK_SH | fcntl.LOCK_NB, byte) if self.place() else None
        if free:
            self._try(fcntl.LOCK_UN, byte)
        return None if free is None else not free

    def _try(self, kind: int, byte: int) -> bool | None:
        try:
            fcntl.lockf(self._descriptor, kind, 1, byte)
        except OSError as error:
            return False if error.errno in _TAKEN else None
        return True


def _opened() -> int:
    path = Path(tempfile.gettempdir()) / f"tenxgraph-{os.getuid()}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _place(descriptor: int) -> str:
    try:
        boot = _BOOT_ID.read_text()[:8]
    except OSError:
        boot = ""
    file = os.fstat(descriptor)
    return f"{boot}:{file.st_dev:x}:{file.st_ino:x}"
