"""An empty Redis and a checkpointer behind it, as fixtures for the modules that name them."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis import Redis
from servers.redis import RedisServer
from turns import Cached, cached


@pytest.fixture
def redis(redis_server: RedisServer) -> Iterator[Any]:
    """A client of the session's Redis, with nothing in it."""
    client = Redis.from_url(redis_server.url())
    client.flushall()
    yield client
    client.close()


@pytest.fixture
async def checkpointer(redis: Any, redis_server: RedisServer) -> AsyncIterator[Cached]:
    """A checkpointer in memory, with an empty cache."""
    made = cached(redis_server.url())
    yield made
    await made.aclose()
