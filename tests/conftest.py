"""Servers for the session, databases for each test."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import backends
import pytest
import stores
from backends import Backend, Checkpointer
from servers.postgres import PostgresEndpoint, PostgresServer, postgres_from_environment
from servers.redis import RedisServer

from tenxgraph.storage.checkpointer import PostgresCheckpointer, SqliteCheckpointer
from tenxgraph.storage.store import BaseStore
from tenxgraph.testing import OpenAIServer

TEMPLATE = "tenxgraph_template"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresEndpoint]:
    """A PostgreSQL: the one the environment names, or one of the session's own."""
    existing = postgres_from_environment()
    if existing is not None:
        yield existing
        return
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresEndpoint) -> str:
    """A database with the tables in it, to be copied."""
    name = f"{TEMPLATE}_{uuid4().hex[:8]}"
    checkpointer: Checkpointer = PostgresCheckpointer(postgres_server.create_database(name))
    checkpointer.setup()
    checkpointer.close()
    return name


@pytest.fixture
def empty_postgres(postgres_server: PostgresEndpoint) -> Iterator[str]:
    """The DSN of a database without tables, for one test."""
    name = f"test_{uuid4().hex[:12]}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_dsn(postgres_server: PostgresEndpoint, postgres_template: str) -> Iterator[str]:
    """The DSN of a database with the tables in it, for one test."""
    name = f"test_{uuid4().hex[:12]}"
    yield postgres_server.create_database(name, template=postgres_template)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis for the session."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables in it, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    checkpointer: Checkpointer = SqliteCheckpointer(path)
    checkpointer.setup()
    checkpointer.close()
    return path


@pytest.fixture(params=[*backends.DURABLE, *backends.CACHED])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """Each backend in turn, with its tables made; some of them with Redis in front."""
    durable, cached, _ = request.param.partition("+redis")
    match durable:
        case "memory":
            made = backends.on_memory()
        case "sqlite":
            template = request.getfixturevalue("sqlite_template")
            made = backends.on_sqlite(str(shutil.copy(template, tmp_path / "threads.db")))
        case "sqlite-memory":
            made = backends.on_sqlite_memory()
        case _:
            made = backends.on_postgres(request.getfixturevalue("postgres_dsn"))
    if cached:
        made = backends.on_redis(made, request.getfixturevalue("redis_server").url())
    await made.make().asetup()
    yield made
    await made.close()


@pytest.fixture
def checkpointer(backend: Backend) -> Checkpointer:
    """A checkpointer on each backend in turn."""
    return backend.opened[0]


@pytest.fixture(scope="module")
def openai_server() -> Iterator[OpenAIServer]:
    """What Mem0 asks for embeddings."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture(params=stores.STORES)
async def store(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[BaseStore]:
    """Each long-term memory in turn, empty."""
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    async with stores.opened(request.param, tmp_path, openai_server) as made:
        yield made
