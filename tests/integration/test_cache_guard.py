"""The guard in Redis looks at the head of a value, never at all of it."""

from typing import Any

import pytest
from redis import Redis
from servers import RedisServer

from tenxgraph.storage.cache import RedisCache

KEY = "state_cache:t1:ada"
SMALL, LARGE = 5_000, 5_000_000


def _value(version: int, size: int) -> bytes:
    head = b'{"__checkpoint_version__":%d,"generation":"aa",' % version
    return head.ljust(size, b" ")


async def _calls(
    server: RedisServer, size: int, *, accepted: bool, rounds: int = 40
) -> tuple[float, list[Any]]:
    client: Any = Redis.from_url(server.url())
    client.flushall()
    cache = RedisCache(server.url(), timeout=5)
    assert await cache.put(KEY, _value(1000, size), version=1000, life="aa", seen="/")
    client.config_set("slowlog-log-slower-than", 1000)
    client.slowlog_reset()
    client.config_resetstat()
    for i in range(rounds):
        version = 1001 + i if accepted else 1
        # What is refused is small: what is measured is the look at what is there.
        value = _value(version, size if accepted else SMALL)
        assert await cache.put(KEY, value, version=version, life="aa", seen="/") is accepted
    spent = client.info("commandstats")["cmdstat_evalsha"]["usec_per_call"]
    slow = [one for one in client.slowlog_get(128) if b"EVALSHA" in one["command"]]
    assert len(client.get(KEY)) == size
    await cache.close()
    client.close()
    return spent, slow


async def test_refusing_takes_the_same_time_whatever_is_there(redis_server: RedisServer) -> None:
    small, _ = await _calls(redis_server, SMALL, accepted=False)
    large, slow = await _calls(redis_server, LARGE, accepted=False)
    assert large < 3 * small + 20, f"{small} and {large} microseconds per call"
    assert not slow


async def test_writing_copies_nothing(redis_server: RedisServer) -> None:
    """A thousand times the size: to copy 5 MB once takes half a millisecond or more."""
    small, _ = await _calls(redis_server, SMALL, accepted=True)
    large, slow = await _calls(redis_server, LARGE, accepted=True)
    assert large < small + 300, f"{small} and {large} microseconds per call"
    assert not slow


@pytest.mark.parametrize(
    ("there", "incoming", "written"),
    [
        ((5, "aa"), (5, "aa"), True),
        ((5, "aa"), (6, "aa"), True),
        ((5, "aa"), (4, "aa"), False),
        ((10, "aa"), (9, "aa"), False),
        ((9_007_199_254_740_990, "aa"), (9_007_199_254_740_991, "aa"), True),
    ],
)
async def test_only_equal_or_newer(
    redis_server: RedisServer, there: tuple[int, str], incoming: tuple[int, str], written: bool
) -> None:
    client: Any = Redis.from_url(redis_server.url())
    client.flushall()
    cache = RedisCache(redis_server.url())
    version, life = there
    await cache.put(KEY, _value(version, 200), version=version, life=life, seen="/")
    version, life = incoming
    done = await cache.put(KEY, _value(version, 200), version=version, life=life, seen="/")
    assert done is written
    newest = max(there[0], incoming[0])
    assert client.get(KEY).startswith(b'{"__checkpoint_version__":%d,' % newest)
    assert client.keys("*") == [KEY.encode()], "nothing is left of what was refused"
    await cache.close()
    client.close()


async def test_of_two_lives_neither_is_believed(redis_server: RedisServer) -> None:
    client: Any = Redis.from_url(redis_server.url())
    client.flushall()
    cache = RedisCache(redis_server.url())
    await cache.put(KEY, _value(9, 200), version=9, life="aa", seen="/")
    value = _value(1, 200).replace(b'"aa"', b'"bb"')
    assert not await cache.put(KEY, value, version=1, life="bb", seen="/")
    assert client.keys("*") == []
    assert await cache.put(KEY, value, version=1, life="bb", seen="/")
    await cache.close()
    client.close()
