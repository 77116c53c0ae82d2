"""The guard in Redis looks at the head of a value, never at all of it."""

from collections.abc import Iterator
from itertools import takewhile
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


async def _commands_of_scripts(server: RedisServer, *, accepted: bool) -> list[str]:
    """Return what the scripts do with the key of a large value while others are written to it."""
    client: Any = Redis.from_url(server.url())
    client.flushall()
    cache = RedisCache(server.url(), timeout=5)
    assert await cache.put(KEY, _value(1000, LARGE), version=1000, life="aa", seen="/")
    with client.monitor() as monitor:
        for i in range(3):
            version = 1001 + i if accepted else 1
            value = _value(version, LARGE if accepted else SMALL)
            assert await cache.put(KEY, value, version=version, life="aa", seen="/") is accepted
        client.echo("over")
        commands = list(takewhile(lambda one: one != "ECHO over", _heard(monitor)))
    await cache.close()
    client.close()
    return [one for one in commands if f" {KEY} " in f"{one} "]


def _heard(monitor: Any) -> Iterator[str]:
    """Return the commands of scripts, and ECHO, as Redis carries them out."""
    for heard in monitor.listen():
        if heard["client_type"] == "lua" or heard["command"].startswith("ECHO"):
            yield heard["command"]


@pytest.mark.parametrize("accepted", [False, True])
async def test_no_script_reads_more_of_a_value_than_its_head(
    redis_server: RedisServer, accepted: bool
) -> None:
    commands = await _commands_of_scripts(redis_server, accepted=accepted)
    assert f"GETRANGE {KEY} 0 127" in commands
    # Redis renames, deletes and gives a time to live without a look at the value.
    others = {one.split()[0] for one in commands} - {"RENAME", "EXPIRE", "DEL"}
    assert others == {"GETRANGE"}


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
