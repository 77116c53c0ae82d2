"""What it takes to run other programs: an account, patience, and a way to end them."""

import os
import pwd
import time
from collections.abc import Callable
from typing import TypedDict

import psutil  # type: ignore[import-untyped]

TIMEOUT = 30.0


class Identity(TypedDict, total=False):
    """Whom a child runs as, in the words of `subprocess.Popen`; empty means as ourselves."""

    user: int
    group: int
    extra_groups: list[int]


def unprivileged() -> Identity:
    """An account for programs that refuse to be root: `postgres` or `nobody` if we are root."""
    if os.geteuid() != 0:
        return {}
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    account = accounts.get("postgres") or accounts["nobody"]
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def wait_until(condition: Callable[[], bool], what: str, *, timeout: float = TIMEOUT) -> None:
    """Return once `condition` holds; raise `TimeoutError`, naming `what`, if it does not."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout:g} s")
        time.sleep(0.01)


def has_ended(process: psutil.Process) -> bool:
    """Whether a process is dead, be it that nobody has yet asked how it died."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def kill_tree(parent: psutil.Process) -> None:
    """End a process and all below it by SIGKILL, and wait until they are dead."""
    # A stopped parent neither gets children while we list them, nor lets go of dead ones.
    parent.suspend()
    still = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    wait_until(lambda: parent.status() in still, "halt of the parent")
    processes = [*parent.children(recursive=True), parent]
    for process in processes:
        process.kill()
    wait_until(lambda: all(map(has_ended, processes)), "end of the processes")
