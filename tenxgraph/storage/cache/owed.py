"""What Redis has not been told yet, and what it is therefore not believed."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Doubts", "OwedDrops"]

_MOST_KEYS = 10_000


class OwedDrops:
    """Entries that should have been dropped or replaced while Redis was away.

    Until that is made up for, this process does not read them. Beyond ten thousand the oldest are
    forgotten; by then `Doubts` has every entry checked anyhow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: OrderedDict[str, int | None] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str, floor: int | None) -> None:
        """Owe a drop; `floor` as in `RedisCache.drop`."""
        with self._lock:
            known = self._keys.pop(key, 0)
            # Of two drops the more thorough one: one without a floor.
            self._keys[key] = None if known is None or floor is None else max(floor, known)
            if len(self._keys) > _MOST_KEYS:
                self._keys.popitem(last=False)

    def get(self, key: str) -> tuple[str, int | None] | None:
        """What is owed for a key."""
        with self._lock:
            return (key, self._keys[key]) if key in self._keys else None

    def oldest(self) -> tuple[str, int | None] | None:
        """What has been owed longest."""
        with self._lock:
            return next(iter(self._keys.items()), None)

    def paid(self, key: str, floor: int | None) -> None:
        """Note a drop that was made, which pays for those that are not more thorough."""
        with self._lock:
            owed = self._keys.get(key, 0)
            if floor is None or (owed is not None and owed <= floor):
                self._keys.pop(key, None)


class Doubts:
    """Which entries might be left over from before an interruption.

    While the way to Redis was interrupted, somebody may have failed to drop an entry. For as long
    as such an entry can live, each one is checked once against the database.
    """

    def __init__(self, ttl: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl = ttl
        self._clock = clock
        self._lock = threading.Lock()
        self._interrupted: float | None = None
        self._cleared: OrderedDict[str, None] = OrderedDict()

    def raise_(self) -> None:
        """The way to Redis has been interrupted just now."""
        with self._lock:
            self._interrupted = self._clock()
            self._cleared.clear()

    def about(self, key: str) -> bool:
        """Whether the entry should be checked."""
        with self._lock:
            if self._interrupted is None or key in self._cleared:
                return False
            since = self._clock() - self._interrupted
            if since > self._ttl:
                self._interrupted = None
                self._cleared.clear()
            return since <= self._ttl

    def clear(self, key: str) -> None:
        """The entry is known to be right."""
        if self._interrupted is None:
            return
        with self._lock:
            self._cleared[key] = None
            if len(self._cleared) > _MOST_KEYS:
                self._cleared.popitem(last=False)
