"""Breaker: leaves a server alone that is away, and says so once."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

__all__ = ["Breaker"]

_logger = logging.getLogger("tenxgraph.cache")

Kind = Literal["read", "write"]

_FAILURES_TO_OPEN = 3
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


class Breaker:
    """Opens after a few failures in a row; then lets one call through now and then.

    Reads and writes are counted apart: a replica answers the one and refuses the other.
    Shared by all event loops and threads of a process.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: dict[Kind, int] = {}
        self._pause = _FIRST_PAUSE
        self._next_attempt = 0.0
        self._began = 0.0

    def allows(self) -> bool:
        """Whether a call should be tried; while open, one per pause is, to see how things are."""
        if not self._failures:
            return True
        with self._lock:
            if max(self._failures.values(), default=0) < _FAILURES_TO_OPEN:
                return True
            now = self._clock()
            if now < self._next_attempt:
                return False
            self._next_attempt = now + self._pause
            return True

    @property
    def is_open(self) -> bool:
        """Whether a call would not be tried now."""
        return bool(self._failures) and self._clock() < self._next_attempt

    def wait(self) -> float:
        """Seconds until a call is tried again."""
        return max(0.0, self._next_attempt - self._clock())

    def succeeded(self, kind: Kind) -> None:
        """A call was answered."""
        if not self._failures:
            return
        with self._lock:
            if self._failures.pop(kind, None) is None and not self._failures:
                return  # another thread was faster
            self._next_attempt = 0.0  # the other kind may try at once, too
            if self._failures:
                return
            self._pause = _FIRST_PAUSE
            seconds = self._clock() - self._began
        _logger.warning("The cache at %s is back, after %.1f s.", self._name, seconds)

    def failed(self, kind: Kind, error: BaseException) -> None:
        """A call failed."""
        with self._lock:
            now = self._clock()
            began = not self._failures
            self._failures[kind] = count = self._failures.get(kind, 0) + 1
            if began:
                self._began = now
            if count > _FAILURES_TO_OPEN:
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)
            if count >= _FAILURES_TO_OPEN:
                self._next_attempt = now + self._pause
        if began:
            _logger.warning(
                "The cache at %s fails (%s). Meanwhile, states are read from the database.",
                self._name,
                f"{type(error).__name__}: {error}".rstrip(": "),
            )
