"""A server as a child process: a port of its own, a folder of its own, and no life after ours."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]

from servers.process import TIMEOUT, Identity, kill_tree, wait_until

# Our end of the guard's pipe closes when this process ends, in whatever way it does.
_GUARD = 'read -r _; kill -s "$1" "$2"; rm -rf "$3" || { sleep 1; rm -rf "$3"; }'


def at_port(url: str, port: int) -> str:
    """The same URL, at a port of 127.0.0.1."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{login}{at}127.0.0.1:{port}").geturl()


def reserve_port() -> socket.socket:
    """A socket that holds a free port for a server which binds with SO_REUSEADDR, as ours do.

    It never listens, so while the server is down clients are refused, and nobody else gets the
    port. Other systems than Linux would not let the server bind beside it; there, the port is
    merely one that was free a moment ago.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class Server(ABC):
    """A server on 127.0.0.1, at one port from construction to `close`.

    What it stores outlives `stop` and `kill`, so that `start` finds it again; `close` deletes it.
    Process and data end with our process at the latest, be that by Ctrl-C or by SIGKILL.
    """

    identity: ClassVar[Identity] = {}
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    orphan_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, *, parent: Path | None = None) -> None:
        self._holder = reserve_port()
        self.port: int = self._holder.getsockname()[1]
        if sys.platform != "linux":
            self._holder.close()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{type(self).__name__.lower()}-", dir=parent))
        self._give_away(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments, to stay in the foreground."""

    @abstractmethod
    def _accepts_clients(self) -> bool:
        """Whether the running program is ready."""

    @property
    def pid(self) -> int | None:
        """The server's process id, None while it is down."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> str:
        """All that the server has said, over all its starts."""
        return (self.folder / "server.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the server and wait until it accepts clients."""
        name = type(self).__name__
        if self._process:
            raise RuntimeError(f"{name} is already running, pid {self._process.pid}")
        with (self.folder / "server.log").open("ab") as log:
            self._process = process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self.identity,
            )
        last_words = [self.orphan_signal.name[3:], str(process.pid), str(self.folder)]
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", *last_words], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            wait_until(
                lambda: process.poll() is not None or self._accepts_clients(), f"start of {name}"
            )
        except TimeoutError:
            self.kill()
            raise
        if process.returncode is not None:
            self._forget()
            raise RuntimeError(f"{name} did not start:\n{self.log}")

    def stop(self) -> None:
        """Shut down in the orderly way and wait for the end; a server that is down stays so."""
        if not self._process:
            return
        self._process.send_signal(self.stop_signal)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._forget()

    def restart(self) -> None:
        """Stop in the orderly way and start again, at the same port."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End the server and its children by SIGKILL, as a crash would, and wait for the end."""
        if not self._process:
            return
        if self._process.poll() is None:
            kill_tree(psutil.Process(self._process.pid))
            self._process.wait()
        self._forget()

    def close(self) -> None:
        """Stop the server and delete all that it stored; it can not be started again."""
        atexit.unregister(self.close)
        self.stop()
        shutil.rmtree(self.folder)
        self._holder.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _give_away(self, path: Path) -> None:
        if self.identity:
            os.chown(path, self.identity["user"], self.identity["group"])

    def _forget(self) -> None:
        self._process = None
        if self._guard and self._guard.stdin:
            self._guard.kill()
            self._guard.wait()
            self._guard.stdin.close()
        self._guard = None
