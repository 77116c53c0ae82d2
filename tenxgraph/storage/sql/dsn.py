"""What hosts hand out as a database URL, understood: for PostgreSQL in the way libpq does."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

__all__ = ["PostgresDsn", "SqliteDsn", "is_postgres", "masked", "refuse_keywords", "sqlite_path"]

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
# What asyncpg and libpq understand of a connection, and settings of the server that are often put
# into a URL. Others would be sent to the server as settings, and be refused there at best.
_CONNECTION = frozenset(
    {
        "application_name", "database", "dbname", "direct_tls", "gsslib", "host", "krbsrvname",
        "options", "passfile", "password", "port", "service", "servicefile", "sslcert", "sslcrl",
        "sslkey", "sslmode", "ssl_max_protocol_version", "ssl_min_protocol_version",
        "sslnegotiation", "sslpassword", "sslrootcert", "target_session_attrs", "user",
        "idle_in_transaction_session_timeout", "jit", "lock_timeout", "search_path",
        "statement_timeout", "timezone", "work_mem",
    }
)  # fmt: skip
_OURS = frozenset({"connect_timeout", "pgbouncer", "ssl"})
# How libpq's other form begins, which is no URL: host=localhost dbname=agents.
_KEYWORDS = re.compile(r"\s*(?:host|hostaddr|port|dbname|user|password|service|sslmode)\s*=")
_SQLITE_MODES = {"rwc": False, "rw": True}
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
        refuse_keywords(dsn)
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
        _refuse_unknown("PostgreSQL", options, _CONNECTION | _OURS | _CLIENT_ONLY | _NOT_OURS)
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


def refuse_keywords(dsn: object) -> None:
    """Raise `ValueError` for libpq's `host=... dbname=...`, which would pass for a file's name."""
    if isinstance(dsn, str) and _KEYWORDS.match(dsn):
        message = (
            "The PostgreSQL DSN must be a URL: instead of `host=... dbname=...` write "
            "postgresql://user:password@host:5432/dbname."
        )
        raise ValueError(message)


@dataclass(frozen=True, slots=True)
class SqliteDsn:
    """A SQLite file."""

    path: str
    """`:memory:` where it is none."""
    must_exist: bool = False
    """Whether `setup()` may not make it, as `mode=rw` says."""

    @classmethod
    def parse(cls, dsn: str) -> "SqliteDsn":
        """Read a path, `:memory:`, or a `sqlite:///` or `sqlite+aiosqlite:///` URL.

        Raises:
            ValueError: it is neither, has options that are not known, or is a `file:` URI.
        """
        refuse_keywords(dsn)
        path = sqlite_path(dsn)
        if path is None:
            path = dsn
        elif "?" in dsn:
            options = dict(parse_qsl(dsn.partition("?")[2], keep_blank_values=True))
            return cls(path, cls._mode(options))
        if path.startswith("file:"):
            raise ValueError(_NO_URI)
        return cls(path)

    @staticmethod
    def _mode(options: dict[str, str]) -> bool:
        if {"uri", "cache"} & options.keys() or options.get("mode") == "memory":
            raise ValueError(_NO_URI)
        _refuse_unknown("SQLite", options, {"mode"})
        mode = options.get("mode", "rwc")
        if mode not in _SQLITE_MODES:
            message = (
                f"`mode` in the SQLite URL must be rwc or rw, not {mode!r}: a checkpointer writes."
            )
            raise ValueError(message)
        return _SQLITE_MODES[mode]


_NO_URI = (
    "SQLite's `file:` URIs and shared in-memory databases are not supported. Write "
    "sqlite:///agents.db or the path for a file, and :memory: for a database in memory, which "
    "belongs to its checkpointer alone."
)


def _refuse_unknown(kind: str, options: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(options) - set(known))
    if not unknown:
        return
    names = ", ".join(f"`{name}`" for name in unknown)
    hint = ""
    if "schema" in unknown:
        hint = " The schema is an argument: schema=..., or TENXGRAPH_SCHEMA for Alembic."
    message = (
        f"The {kind} DSN has options that are not known: {names}.{hint} Known are: "
        f"{', '.join(sorted(known))}."
    )
    raise ValueError(message)


def sqlite_path(dsn: str) -> str | None:
    """The file a SQLite URL names, `:memory:` if it names none, `None` if it is no such URL.

    Raises:
        ValueError: a file name stands where a host would, behind two slashes; or it is a URI.
    """
    scheme, separator, rest = dsn.partition("://")
    if not separator or not _SQLITE.match(scheme):
        return None
    if rest and not rest.startswith(("/", "?")):
        message = f"{dsn} has two slashes in front of the file; write {scheme}:///{rest}."
        raise ValueError(message)
    path = rest.partition("?")[0].removeprefix("/")
    if path.startswith("file:"):
        raise ValueError(_NO_URI)
    return path if path not in ("", ":memory:") else ":memory:"


def masked(dsn: str) -> str:
    """The DSN without its password, wherever it stands."""
    parts = urlsplit(dsn)
    login, at, location = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    netloc = f"{user}:***{at}{location}" if colon else parts.netloc
    query = re.sub(r"((?:ssl)?password)=[^&]*", r"\1=***", parts.query)
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"
