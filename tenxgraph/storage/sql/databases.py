"""From a DSN to a database: the one place where the dialect is chosen."""

from tenxgraph.storage.sql.dsn import PostgresDsn, SqliteDsn, is_postgres, sqlite_path
from tenxgraph.storage.sql.postgres_database import PostgresDatabase, PostgresOptions
from tenxgraph.storage.sql.sqlite_database import MEMORY, SqliteDatabase

__all__ = ["open_database"]


def open_database(dsn: str | None, schema: str | None = None) -> PostgresDatabase | SqliteDatabase:
    """The database a DSN names; nothing is connected yet.

    Raises:
        ValueError: there is no DSN, or it names neither dialect.
    """
    if not dsn:
        message = (
            "Set TENXGRAPH_DSN to the database to use, such as sqlite:///agents.db or "
            "postgresql://user:password@host/database."
        )
        raise ValueError(message)
    if is_postgres(dsn):
        return PostgresDatabase(PostgresDsn.parse(dsn), schema or "public", PostgresOptions())
    if "://" in dsn and sqlite_path(dsn) is None:
        message = "The DSN must be a postgresql:// or sqlite:/// URL, or the path of a SQLite file."
        raise ValueError(message)
    file = SqliteDsn.parse(dsn)
    if file.path == MEMORY:
        message = f"{dsn} names no file, so what is done to it is gone at once."
        raise ValueError(message)
    return SqliteDatabase(file.path, must_exist=file.must_exist)
