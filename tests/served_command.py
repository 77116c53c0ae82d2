"""`tenxgraph serve` as a process of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import programs


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tenxgraph", *arguments]


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[httpx.Client, "subprocess.Popen[str]"]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        command("serve", "--port", str(port), *arguments),
        cwd=folder,
        env=programs.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            _wait_until_ready(client, process)
            yield client, process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def _wait_until_ready(client: httpx.Client, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        try:
            assert client.get("/health/ready").status_code == 200
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("not ready")
