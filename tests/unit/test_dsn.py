"""The URLs that hosts hand out are understood; no password is ever shown."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import (
    PostgresCheckpointer,
    SqliteCheckpointer,
    create_checkpointer,
)
from tenxgraph.storage.sql.databases import open_database
from tenxgraph.storage.sql.dsn import PostgresDsn, is_postgres, masked, sqlite_path

UNDERSTOOD = {
    "postgres://a:p%40ss%25w@h/db?sslmode=require": "postgresql://a:p%40ss%25w@h/db?sslmode=require",
    "postgresql://a:p@h/db?sslmode=verify-full&sslrootcert=/ca.pem": (
        "postgresql://a:p@h/db?sslmode=verify-full&sslrootcert=%2Fca.pem"
    ),
    "postgresql+asyncpg://a:p@h/db?ssl=require": "postgresql://a:p@h/db?sslmode=require",
    "postgresql+asyncpg://a:p@h/db?ssl=true": "postgresql://a:p@h/db?sslmode=require",
    "postgresql+asyncpg://a:p@h/db?ssl=verify-full": "postgresql://a:p@h/db?sslmode=verify-full",
    "postgresql://a:p@h/db?channel_binding=require": "postgresql://a:p@h/db",
    "postgresql://a:p@h/db?keepalives=1&client_encoding=utf8": "postgresql://a:p@h/db",
    "postgresql:///db?host=/run/pg": "postgresql:///db?host=%2Frun%2Fpg",
    "postgresql://a:p@h1:5432,h2:5433/db": "postgresql://a:p@h1:5432,h2:5433/db",
    "postgresql://a:p@[::1]:5432/db": "postgresql://a:p@[::1]:5432/db",
    "postgresql://h/db?options=-c%20search_path%3Dx": (
        "postgresql://h/db?options=-c%20search_path%3Dx"
    ),
    "postgresql://h": "postgresql://h",
    "postgresql://u:p@h/db?pgbouncer=true&connection_limit=1": "postgresql://u:p@h/db",
    "postgresql+asyncpg://u:p@h/db?prepared_statement_cache_size=0": "postgresql://u:p@h/db",
}  # fmt: skip


@pytest.mark.parametrize("dsn", UNDERSTOOD)
def test_urls_of_hosts_are_understood(dsn: str) -> None:
    assert PostgresDsn.parse(dsn).url == UNDERSTOOD[dsn]


@pytest.mark.parametrize(
    "mode", ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
)
def test_tls_is_exactly_what_the_url_says(mode: str) -> None:
    for option in ("sslmode", "ssl"):
        assert PostgresDsn.parse(f"postgresql://h/db?{option}={mode}").url.endswith(
            f"?sslmode={mode}"
        )
    both = PostgresDsn.parse(f"postgresql://h/db?sslmode={mode}&ssl=disable")
    assert f"sslmode={mode}" in both.url


def test_timeouts_and_poolers_are_read_from_the_url() -> None:
    assert PostgresDsn.parse("postgresql://h/db?connect_timeout=5").connect_timeout == 5.0
    for unlimited in ("0", "-1"):
        dsn = PostgresDsn.parse(f"postgresql://h/db?connect_timeout={unlimited}")
        assert dsn.connect_timeout is None
    assert PostgresDsn.parse("postgresql://h/db?pgbouncer=true").pgbouncer is True
    assert PostgresDsn.parse("postgresql://h/db?pgbouncer=false").pgbouncer is False
    assert PostgresDsn.parse("postgresql://h/db").pgbouncer is False


SECRET = "s3cr3t"
WITH_SECRET = [
    f"postgresql://user:{SECRET}@h/db",
    f"postgres://user:{SECRET}%40%25@h:5432/db?sslmode=require",
    f"postgresql://user:a@{SECRET}@h/db",
    f"postgresql://:{SECRET}@h/db",
    f"postgresql://h/db?user=u&password={SECRET}",
    f"postgresql://h/db?sslpassword={SECRET}&sslmode=require",
    f"postgresql+asyncpg://user:{SECRET}@[::1]:5432/db",
]


@pytest.mark.parametrize("dsn", WITH_SECRET)
def test_no_password_is_shown(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    parsed = PostgresDsn.parse(dsn)
    assert SECRET in parsed.url
    for shown in (repr(parsed), f"{parsed}", masked(dsn), repr(PostgresCheckpointer(dsn))):
        assert SECRET not in shown
        assert "***" in shown
    assert SECRET not in caplog.text


NO_POSTGRES: list[Any] = [
    f"mysql://u:{SECRET}@h/db",
    f"host=h password={SECRET}",
    f"postgresqlx://u:{SECRET}@h",
    f"postgresql://u:{SECRET}#x@h/db",
    f"postgresql://u:{SECRET}/x@h/db",
    f"postgresql://u:{SECRET}?x@h/db",
    "postgresql://h/db?connect_timeout=soon",
    "",
    "h/db",
    5,
    b"postgresql://h/db",
]


@pytest.mark.parametrize("dsn", NO_POSTGRES)
def test_what_is_no_url_is_refused_without_repeating_it(dsn: Any) -> None:
    with pytest.raises(ValueError, match=r"PostgreSQL DSN") as raised:
        PostgresDsn.parse(dsn)
    assert SECRET not in str(raised.value)


def test_which_urls_are_which() -> None:
    for dsn in ("postgres://h", "postgresql://h", "postgresql+asyncpg://h"):
        assert is_postgres(dsn)
        assert sqlite_path(dsn) is None
    for dsn in ("sqlite:///a.db", "a.db", ":memory:", "mysql://h", "postgresql+psycopg://h"):
        assert not is_postgres(dsn)


@pytest.mark.parametrize(
    ("dsn", "path"),
    [
        ("sqlite:///agents.db", "agents.db"),
        ("sqlite:////var/agents.db", "/var/agents.db"),
        ("sqlite+aiosqlite:///agents.db?mode=rw", "agents.db"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite://", ":memory:"),
        ("agents.db", None),
        ("mysql:///x", None),
    ],
)
def test_the_file_of_a_sqlite_url(dsn: str, path: str | None) -> None:
    assert sqlite_path(dsn) == path


def test_changing_databases_is_changing_the_dsn() -> None:
    assert isinstance(create_checkpointer("postgresql://u:p@h/db"), PostgresCheckpointer)
    for dsn in ("sqlite:///agents.db", "agents.db", ":memory:", "sqlite+aiosqlite:///agents.db"):
        assert isinstance(create_checkpointer(dsn), SqliteCheckpointer)


def test_a_dsn_that_is_none_is_refused() -> None:
    for dsn in (None, "", f"mysql://u:{SECRET}@h/db"):
        with pytest.raises(ValueError, match=r"sqlite:///") as raised:
            create_checkpointer(dsn)
        assert SECRET not in str(raised.value)
    for path in ("", "postgresql://h/db"):
        with pytest.raises(ValueError, match="db_path"):
            SqliteCheckpointer(path)


def test_options_go_to_the_class() -> None:
    made = create_checkpointer(":memory:", enforce_user_isolation=False)
    assert isinstance(made, SqliteCheckpointer)
    assert made.enforce_user_isolation is False
    with pytest.raises(TypeError, match="pool_size"):
        create_checkpointer(":memory:", pool_size=5)


def test_alembic_reads_the_same_urls() -> None:
    assert open_database("sqlite:////tmp/agents.db").schema is None
    assert open_database("postgres://u:p%25@h/db?sslmode=require", "tenant").schema == "tenant"
    with pytest.raises(ValueError, match="TENXGRAPH_DSN"):
        open_database(None)
    with pytest.raises(ValueError, match=r"postgresql:// or sqlite:///"):
        open_database("mysql://h/db")


def test_either_a_dsn_or_an_engine() -> None:
    with pytest.raises(ValueError, match="either"):
        PostgresCheckpointer()
    with pytest.raises(ValueError, match="either"):
        PostgresCheckpointer("postgresql://h/db", engine=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AsyncEngine"):
        PostgresCheckpointer(engine=object())  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", ["", "x" * 64, "é" * 32, "nul\x00", None, 5])
def test_a_schema_that_is_no_identifier_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="schema"):
        PostgresCheckpointer("postgresql://h/db", schema=schema)


def test_a_path_object_is_as_good_as_its_text(tmp_path: Path) -> None:
    checkpointer = create_checkpointer(tmp_path / "agents.db")
    assert isinstance(checkpointer, SqliteCheckpointer)
    assert str(tmp_path / "agents.db") in repr(checkpointer)


def test_a_file_behind_two_slashes_is_not_taken_for_a_host() -> None:
    with pytest.raises(ValueError, match=r"write sqlite:///agents\.db"):
        create_checkpointer("sqlite://agents.db")


@pytest.mark.parametrize("dsn", ["postgres:/agents", "postgresql:agents", "sqlite:agents.db"])
def test_a_url_without_its_slashes_is_no_path(dsn: str) -> None:
    with pytest.raises(ValueError, match="must be a postgresql://"):
        create_checkpointer(dsn)


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("sqlite:///file:x?mode=memory&cache=shared&uri=true", "`file:` URIs.*:memory:"),
        ("sqlite+aiosqlite:///file:x.db", "`file:` URIs"),
        ("file:x.db?mode=ro", "`file:` URIs"),
        ("file::memory:?cache=shared", "`file:` URIs"),
        ("sqlite:///x.db?uri=true", "`file:` URIs"),
        ("sqlite:///x.db?mode=memory", "`file:` URIs"),
        ("sqlite://?mode=memory", "`file:` URIs"),
        ("sqlite:///x.db?mode=ro", "rwc or rw"),
        ("sqlite:///x.db?mode=", "rwc or rw"),
        (
            "sqlite:///x.db?timeout=5&check_same_thread=false",
            "`check_same_thread`, `timeout`.*mode",
        ),
    ],
)
def test_options_of_a_sqlite_url_are_understood_or_refused(
    dsn: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for opens in (create_checkpointer, SqliteCheckpointer, open_database):
        with pytest.raises(ValueError, match=words):
            opens(dsn)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    dsn = f"sqlite:///{path}?mode=rw"
    async with SqliteCheckpointer[AgentState](dsn) as kept:
        with pytest.raises(StorageError, match="mode=rw") as caught:
            await kept.asetup()
    assert caught.value.code == "cannot_open"
    assert not path.exists()
    async with SqliteCheckpointer[AgentState](f"sqlite:///{path}?mode=rwc") as kept:
        await kept.asetup()
    async with SqliteCheckpointer[AgentState](dsn) as kept:
        await kept.asetup()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("sslmod=require", "`sslmod`.*sslmode"),
        ("schema=tenant", "`schema`.*schema=.*search_path"),
        ("sslmode=require&supa=x&foo=", "`foo`, `supa`"),
    ],
)
def test_unknown_options_of_a_postgresql_url_are_refused(query: str, names: str) -> None:
    dsn = f"postgresql://u:{SECRET}@h/db?{query}"
    for opens in (create_checkpointer, PostgresCheckpointer, open_database):
        with pytest.raises(ValueError, match=names) as caught:
            opens(dsn)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "dsn", [f"host=h dbname=db password={SECRET}", "dbname = agents", "service=mine"]
)
def test_keywords_of_libpq_make_no_file(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for opens in (create_checkpointer, SqliteCheckpointer, PostgresCheckpointer, open_database):
        with pytest.raises(ValueError, match=r"postgresql://user:password@host") as caught:
            opens(dsn)
        assert SECRET not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_redis_in_front_of_sqlite_is_refused() -> None:
    with pytest.raises(ValueError, match=r"redis_url.*PostgreSQL"):
        create_checkpointer("agents.db", redis_url="redis://h")


def test_unknown_options_are_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(TypeError, match=r"`pool_sise`.*pool_size, pool_timeout"):
        create_checkpointer("postgresql://h/db", pool_sise=5)
    with pytest.raises(TypeError, match=r"`pool_sise`.*pool_size"):
        create_checkpointer("postgresql://h/db", redis_url="redis://h", pool_sise=5)
    with pytest.raises(TypeError, match=r"`history`.*enforce_user_isolation, state_history_limit"):
        create_checkpointer(":memory:", history=5)


def test_migrating_what_is_gone_at_once_is_refused() -> None:
    with pytest.raises(ValueError, match="names no file"):
        open_database("sqlite://")
