"""Real servers for tests and benchmarks, started from wheels on free ports of 127.0.0.1."""

from servers.pgbouncer import PgBouncer
from servers.postgres import PostgresEndpoint, PostgresServer, postgres_from_environment
from servers.proxy import TcpProxy
from servers.redis import RedisEndpoint, RedisServer, redis_from_environment

__all__ = [
    "PgBouncer",
    "PostgresEndpoint",
    "PostgresServer",
    "RedisEndpoint",
    "RedisServer",
    "TcpProxy",
    "postgres_from_environment",
    "redis_from_environment",
]
