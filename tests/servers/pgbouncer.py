"""Debian's PgBouncer, in front of a PostgreSQL server."""

import shutil
import socket
from typing import Literal
from urllib.parse import unquote, urlsplit

from servers.postgres import PostgresEndpoint
from servers.process import unprivileged
from servers.server import Server, at_port


class PgBouncer(Server):
    """A pooler in front of all databases of `server`, for its superuser.

    Everything but the port and the arguments is as PgBouncer has it by default.
    """

    identity = unprivileged()

    def __init__(
        self,
        server: PostgresEndpoint,
        pool_mode: Literal["session", "transaction", "statement"] = "transaction",
        default_pool_size: int = 2,
    ) -> None:
        super().__init__()
        self._server = server
        backend = urlsplit(server.dsn())
        users = self.folder / "users.txt"
        users.write_text(
            f'"{unquote(backend.username or "")}" "{unquote(backend.password or "")}"\n'
        )
        self._ini = self.folder / "pgbouncer.ini"
        self._ini.write_text(f"""\
[databases]
* = host={backend.hostname} port={backend.port or 5432}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = md5
auth_file = {users}
pool_mode = {pool_mode}
default_pool_size = {default_pool_size}
""")
        for path in (users, self._ini):
            self._give_away(path)

    @staticmethod
    def available() -> bool:
        """Whether PgBouncer is installed."""
        return _program() is not None

    def dsn(self, database: str = "postgres") -> str:
        """The server's DSN by way of the pooler."""
        return at_port(self._server.dsn(database), self.port)

    def _command(self) -> list[str]:
        program = _program()
        if program is None:
            raise FileNotFoundError("pgbouncer: apt-get install pgbouncer")
        return [program, str(self._ini)]

    def _accepts_clients(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


def _program() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
