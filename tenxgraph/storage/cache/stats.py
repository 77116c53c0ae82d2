"""CacheStats: what the cache has done since it was made."""

from dataclasses import dataclass

__all__ = ["CacheStats"]


@dataclass(slots=True)
class CacheStats:
    """Counters, of this object in this process. They only ever grow."""

    hits: int = 0
    """Reads that were answered from Redis."""
    misses: int = 0
    """Reads that went on to the database, for whatever reason."""
    errors: int = 0
    """Calls to Redis that failed, or did not answer in time."""
    refreshes: int = 0
    """Entries that were written."""
    skipped: int = 0
    """Entries that were not written: a newer one was there, or Redis was away."""
    invalidations: int = 0
    """Entries that were dropped, or would have been if there had been one."""
