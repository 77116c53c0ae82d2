"""create_checkpointer: the class that fits a DSN, so that changing databases is changing a DSN."""

import os
from typing import Any

from tenxgraph.storage.checkpointer._options import refuse_unknown_options
from tenxgraph.storage.checkpointer.base import BaseCheckpointer
from tenxgraph.storage.checkpointer.pg import PgCheckpointer
from tenxgraph.storage.checkpointer.postgres import PostgresCheckpointer
from tenxgraph.storage.checkpointer.sqlite import SqliteCheckpointer
from tenxgraph.storage.sql.dsn import is_postgres, refuse_keywords

__all__ = ["create_checkpointer"]

_SCHEMES = ("postgres:", "postgresql:", "sqlite:")


def create_checkpointer(
    dsn: str | os.PathLike[str] | None, *, redis_url: str | None = None, **options: Any
) -> BaseCheckpointer[Any]:
    """Make the checkpointer for a DSN.

    Args:
        dsn: `postgresql://...`, a `sqlite:///` URL, or the path of a SQLite file.
        redis_url: a Redis to put in front of PostgreSQL; without one, the durable layer alone.
        options: passed on to the class.

    Raises:
        ValueError: it is no DSN, or names another database; or SQLite is to have a Redis.
        TypeError: an option is not known; names those that are.
    """
    dsn = os.fspath(dsn) if isinstance(dsn, str | os.PathLike) else ""
    if not dsn or ("://" not in dsn and dsn.startswith(_SCHEMES)):
        message = "`dsn` must be a postgresql:// or sqlite:/// URL, or the path of a SQLite file."
        raise ValueError(message)
    refuse_keywords(dsn)
    if is_postgres(dsn) and redis_url is not None:
        return PgCheckpointer(dsn, redis_url=redis_url, **options)
    if is_postgres(dsn):
        return PostgresCheckpointer(dsn, **options)
    if "://" in dsn and not dsn.startswith("sqlite"):
        message = f"{dsn.partition('://')[0]}:// is not supported; use postgresql:// or sqlite:///."
        raise ValueError(message)
    if redis_url is not None:
        message = "`redis_url` goes with PostgreSQL. Leave it out for a SQLite file."
        raise ValueError(message)
    refuse_unknown_options(SqliteCheckpointer, options, SqliteCheckpointer)
    return SqliteCheckpointer(dsn, **options)
