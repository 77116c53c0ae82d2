"""What hosts hand out as a database URL, understood: for PostgreSQL in the way libpq does."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

__all__ = ["PostgresDsn", "is_postgres", "masked", "sqlite_path"]

_POSTGRES = re.compile(r"^postgres(?:ql)?(?:\+asyncpg)?$")
_SQLITE = re.compile(r"^sqlite(?:\+aiosqlite)?$")

# Said to libpq, but nothing that asyncpg could do or that a server would take as a setting.
_CLIENT_ONLY = frozenset(
    {
        "channel_binding", "client_encoding", "fallback_application_name", "gssencmode",
        "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval",
        "load_balance_hosts", "require_auth", "requirepeer", "sslcompression", "sslsni",
        "tcp_user_timeout",
    }
)  # fmt: skip
# Options of SQLAlchemy, and of Prisma, for which hosts hand out URLs: pools and the caching of
# statements are decided by our own options and by `pgbouncer`.
_NOT_OURS = frozenset(
    {"prepared_statement_cache_size", "async_fallback", "connection_limit", "pool_timeout"}
)
_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class PostgresDsn:
    """A PostgreSQL URL, ready for asyncpg; its `repr` shows no password."""

    url: str
    """For `asyncpg.connect(dsn=...)`, which reads `sslmode` and the rest as libpq does."""
    connect_timeout: float | None = None
    pgbouncer: bool = False
    """Whether the URL says `pgbouncer=true`, as those of transaction poolers do."""

    @classmethod
    def parse(cls, dsn: object) -> "PostgresDsn":
        """Read `postgres://`, `postgresql://` and `postgresql+asyncpg://` URLs.

        Raises:
            ValueError: it is no such URL; the message does not repeat it, as it may hold a
                password.
        """
        parts = urlsplit(dsn) if isinstance(dsn, str) else None
        if parts is None or not _POSTGRES.match(parts.scheme):
            message = (
                "The PostgreSQL DSN must begin with postgresql://, postgres:// or "
                "postgresql+asyncpg://, like postgresql://user:password@host:5432/database."
            )
            raise ValueError(message)
        if parts.fragment or ("@" not in parts.netloc and "@" in parts.path + parts.query):
            message = (
                "The PostgreSQL DSN cannot be read: write `#`, `/`, `?` and `@` in a user name or "
                "password as %23, %2F, %3F and %40."
            )
            raise ValueError(message)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        timeout = options.pop("connect_timeout", None)
        pgbouncer = options.pop("pgbouncer", "").lower() in _TRUE
        if "ssl" in options:  # SQLAlchemy's spelling
            options.setdefault("sslmode", _sslmode(options.pop("ssl")))
        kept = {
            name: value
            for name, value in options.items()
            if name not in _CLIENT_ONLY and name not in _NOT_OURS
        }
        query = f"?{urlencode(kept, quote_via=quote)}" if kept else ""
        return cls(f"postgresql://{parts.netloc}{parts.path}{query}", _seconds(timeout), pgbouncer)

    @property
    def place(self) -> str:
        """The server and the database, without who logs in."""
        parts = urlsplit(self.url)
        return f"PostgreSQL at {parts.netloc.rpartition('@')[2]}{parts.path}"

    def __repr__(self) -> str:
        return f"PostgresDsn({masked(self.url)!r})"


def _seconds(timeout: str | None) -> float | None:
    """What `connect_timeout` says; as in libpq, 0 or less is no limit of the URL's."""
    if timeout is None:
        return None
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", timeout):
        message = f"`connect_timeout` in the PostgreSQL DSN must be seconds, not {timeout!r}."
        raise ValueError(message)
    return float(timeout) if float(timeout) > 0 else None


def _sslmode(value: str) -> str:
    return {"true": "require", "false": "disable"}.get(value.lower(), value)


def is_postgres(dsn: str) -> bool:
    """Whether a DSN names a PostgreSQL database."""
    return bool(_POSTGRES.match(dsn.partition("://")[0]))


def sqlite_path(dsn: str) -> str | None:
    """The file a SQLite URL names, `:memory:` if it names none, `None` if it is no such URL.

    Raises:
        ValueError: a file name stands where a host would, behind two slashes.
    """
    scheme, separator, rest = dsn.partition("://")
    if not separator or not _SQLITE.match(scheme):
        return None
    if rest and not rest.startswith("/"):
        message = f"{dsn} has two slashes in front of the file; write {scheme}:///{rest}."
        raise ValueError(message)
    path = rest.partition("?")[0].removeprefix("/")
    return path if path not in ("", ":memory:") else ":memory:"


def masked(dsn: str) -> str:
    """The DSN without its password, wherever it stands."""
    parts = urlsplit(dsn)
    login, at, location = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    netloc = f"{user}:***{at}{location}" if colon else parts.netloc
    query = re.sub(r"((?:ssl)?password)=[^&]*", r"\1=***", parts.query)
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"
