"""How Redis is reached: event loops, clients that were handed in, clusters, sentinels."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Any

import programs
import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster
from redis.exceptions import TimeoutError
from servers import RedisServer
from servers.process import wait_until
from turns import IDS, KEY, cached, said, texts_in, turn

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.cache import RedisCache
from tenxgraph.storage.checkpointer import (
    CachedCheckpointer,
    InMemoryCheckpointer,
    PgCheckpointer,
    PostgresCheckpointer,
)

STATE = AgentState(context=[Message.text_message("hello")])


def _on(cache: RedisCache) -> CachedCheckpointer[Any]:
    return CachedCheckpointer(InMemoryCheckpointer[Any](), cache)


async def _works(checkpointer: CachedCheckpointer[Any]) -> None:
    await turn(checkpointer, "a")
    await turn(checkpointer, "b")
    assert await texts_in(checkpointer) == said("a", "b")
    await checkpointer.aclean_thread(dict(IDS))
    assert await texts_in(checkpointer) is None
    await turn(checkpointer, "c")
    stats = checkpointer.cache_stats
    assert stats.errors == 0
    assert stats.hits >= 2
    assert stats.refreshes >= 4


def test_one_checkpointer_in_many_loops_and_threads(redis_server: RedisServer) -> None:
    checkpointer = cached(redis_server.url())
    checkpointer.setup()
    ids = {"thread_id": "loops", "user_id": "ada"}
    checkpointer.clean_thread(dict(ids))
    checkpointer.put_state(dict(ids), STATE)
    for _ in range(3):
        assert asyncio.run(checkpointer.aget_state_cache(dict(ids))) == STATE
        assert checkpointer.get_state_cache(dict(ids)) == STATE
    found: list[Any] = []
    read = checkpointer.aget_state_cache
    thread = threading.Thread(target=lambda: found.append(asyncio.run(read(dict(ids)))))
    thread.start()
    thread.join()
    assert found == [STATE]

    async def inside() -> Any:
        return checkpointer.get_state_cache(dict(ids))

    assert asyncio.run(inside()) == STATE
    assert checkpointer.cache_stats.errors == 0
    checkpointer.close()


async def test_no_connection_is_left_open(redis_server: RedisServer) -> None:
    client: Any = Redis.from_url(redis_server.url())
    before = len(client.client_list())
    checkpointer = cached(redis_server.url())
    await asyncio.gather(
        *(turn(checkpointer, "a", {"thread_id": f"t{i}", "user_id": "ada"}) for i in range(5))
    )
    assert len(client.client_list()) > before
    await checkpointer.aclose()
    await asyncio.sleep(0.05)
    assert len(client.client_list()) == before
    await turn(checkpointer, "used again after it was closed")
    await checkpointer.aclose()
    client.close()


async def test_a_redis_that_is_slow_to_say_goodbye_is_no_error(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpointer = _on(RedisCache(redis_server.url()))
    await _works(checkpointer)
    close = AsyncRedis.aclose

    async def slow(self: Any, *given: Any) -> None:
        await close(self, *given)
        raise TimeoutError("Timed out closing connection")

    monkeypatch.setattr(AsyncRedis, "aclose", slow)
    await checkpointer.aclose()
    assert "did not close in an orderly way" in caplog.text


@pytest.mark.parametrize("decode", [False, True])
async def test_a_client_that_was_handed_in_is_used_and_not_closed(
    redis_server: RedisServer, decode: bool
) -> None:
    client: Any = AsyncRedis.from_url(redis_server.url(), decode_responses=decode)
    await client.flushall()
    checkpointer = _on(RedisCache(client=client))
    await _works(checkpointer)
    await client.set(KEY, b"\xff\xfe")
    assert await texts_in(checkpointer) == said("c")
    await checkpointer.aclose()
    assert await client.ping()
    await client.aclose()


@pytest.fixture
def cluster() -> Iterator[RedisServer]:
    """A cluster of one node, which is as strict about slots as one of many."""
    with RedisServer(config={"cluster-enabled": "yes"}) as server:
        client: Any = Redis.from_url(server.url())
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok", "slots")
        client.close()
        yield server


async def test_a_cluster_by_url(cluster: RedisServer) -> None:
    url = cluster.url().replace("redis://", "redis+cluster://")
    checkpointer = _on(RedisCache(url, timeout=2))
    await _works(checkpointer)
    await checkpointer.aclose()


async def test_a_cluster_by_client_and_a_cluster_behind_a_plain_client(
    cluster: RedisServer,
) -> None:
    client = RedisCluster.from_url(cluster.url())
    checkpointer = _on(RedisCache(client=client, timeout=2))
    await _works(checkpointer)
    await checkpointer.aclose()
    assert await client.ping()
    await client.aclose()
    plain = _on(RedisCache(cluster.url(), timeout=2))
    await plain.aclean_thread(dict(IDS))
    await _works(plain)
    await plain.aclose()


async def test_a_master_by_sentinel(redis_server: RedisServer, tmp_path: Any) -> None:
    with RedisServer(password="secret") as master:
        sentinel = Sentinel(master.port)
        with sentinel:
            url = sentinel.url().rstrip("/0")
            url = url.replace("redis://", "redis+sentinel://:secret@") + "/main/0"
            cache = RedisCache(url, timeout=2)
            assert "secret" not in repr(cache)
            checkpointer = _on(cache)
            await _works(checkpointer)
            await checkpointer.aclose()
            client: Any = Redis.from_url(master.url())
            assert client.get(KEY)
            client.close()


class Sentinel(RedisServer):
    """One sentinel, which knows the master `main`."""

    def __init__(self, master_port: int) -> None:
        super().__init__()
        self._file = self.folder / "sentinel.conf"
        self._file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
            f"sentinel monitor main 127.0.0.1 {master_port} 1\n"
            "sentinel auth-pass main secret\n"
        )

    def _command(self) -> list[str]:
        return [super()._command()[0], str(self._file), "--sentinel"]


def test_what_is_no_redis_is_refused_without_repeating_it() -> None:
    for url in (
        "http://h:1",
        "redis+what://x:s3cret@h",
        "localhost:6379",
        "",
        "redis+sentinel://h",
    ):
        with pytest.raises(ValueError, match="redis") as caught:
            RedisCache(url)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(ValueError, match="not both"):
        RedisCache()
    with pytest.raises(ValueError, match="not both"):
        RedisCache("redis://h", client=AsyncRedis())
    with pytest.raises(ValueError, match=r"redis\.asyncio"):
        RedisCache(client=Redis())  # type: ignore[arg-type]
    for ttl in (0, -1, 1.5, "60", True):
        with pytest.raises(ValueError, match="cache_ttl"):
            RedisCache("redis://h", ttl=ttl)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cache_timeout"):
        RedisCache("redis://h", timeout=0)


def test_tls_is_taken_from_the_url() -> None:
    async def connection_class(url: str) -> str:
        cache = RedisCache(url)
        client: Any = cache._clients.current()
        name = client.connection_pool.connection_class.__name__
        await cache.close()
        return str(name)

    assert asyncio.run(connection_class("rediss://h:1/0")) == "SSLConnection"
    assert asyncio.run(connection_class("redis://h:1/0")) == "Connection"
    assert "SSL" in asyncio.run(connection_class("rediss+sentinel://h:1/main"))


DSN = "postgresql://user:s3cret@localhost:1/db"
REDIS = "redis://:s3cret@localhost:1/0"


def test_both_servers_are_required() -> None:
    for arguments in (
        {"postgres_dsn": DSN},
        {"redis_url": REDIS},
        {},
        {"postgres_dsn": DSN, "redis_url": REDIS, "redis": AsyncRedis()},
    ):
        with pytest.raises(ValueError, match="Pass either"):
            PgCheckpointer(**arguments)
    with pytest.raises(ValueError, match="schema"):
        PgCheckpointer(DSN, redis_url=REDIS, schema="")
    with pytest.raises(ValueError, match="cache_prefix"):
        PgCheckpointer(DSN, redis_url=REDIS, cache_prefix="a}b")


def test_the_defaults_and_what_can_be_said() -> None:
    checkpointer = PgCheckpointer[Any](postgres_dsn=DSN, redis_url=REDIS)
    assert checkpointer.schema == "public"
    assert checkpointer.enforce_user_isolation
    assert not checkpointer.verify_cached_version
    assert checkpointer._cache._ttl == 86400
    assert checkpointer._cache._timeout == 0.25
    assert checkpointer._get_thread_key("t1", "ada") == KEY
    assert "s3cret" not in repr(checkpointer)
    PgCheckpointer(
        DSN,
        redis_url=REDIS,
        cache_ttl=3600,
        state_history_limit=5,
        enforce_user_isolation=False,
        schema="tenant_a",
        cache_prefix="prod:",
        cache_timeout=0.1,
        verify_cached_version=True,
        pgbouncer=True,
        pool_size=3,
    )


def test_a_missing_driver_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "redis"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ImportError, match=r'"tenxgraph\[postgres\]"'):
        PgCheckpointer(DSN, redis_url=REDIS)


def test_importing_the_checkpointers_loads_no_driver() -> None:
    program = """
        import sys, tenxgraph.storage.checkpointer
        print([name for name in ("redis", "asyncpg", "sqlalchemy") if name in sys.modules])
    """
    assert programs.run(program) == "[]\n"


def test_the_class_follows_from_the_urls() -> None:
    assert type(create_checkpointer(DSN, redis_url=REDIS, cache_ttl=60)) is PgCheckpointer
    assert type(create_checkpointer(DSN)) is PostgresCheckpointer


async def test_postgres_and_redis_together(postgres_dsn: str, redis_server: RedisServer) -> None:
    client: Any = Redis.from_url(redis_server.url())
    client.flushall()
    async with PgCheckpointer[Any](postgres_dsn, redis_url=redis_server.url()) as checkpointer:
        await checkpointer.asetup()
        await _works(checkpointer)
        assert client.ttl(KEY) == 86400
    client.close()


async def test_setup_does_not_need_redis(postgres_dsn: str) -> None:
    async with PgCheckpointer[Any](postgres_dsn, redis_url="redis://127.0.0.1:1/0") as one:
        await one.asetup()
        await turn(one, "a")
        assert await texts_in(one) == said("a")
