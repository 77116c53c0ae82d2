"""The cache in front of a durable checkpointer: the latest state of each thread, in Redis."""

from tenxgraph.storage.cache.redis_cache import RedisCache
from tenxgraph.storage.cache.stats import CacheStats

__all__ = ["CacheStats", "RedisCache"]
