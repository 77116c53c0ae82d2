"""Databases as their administrator sees them: what tables there are, whoever made them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from servers.postgres import PostgresEndpoint

_COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = $1 ORDER BY table_name, ordinal_position
"""
_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = $1 ORDER BY indexname"
_CONSTRAINTS = """
    SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint
    WHERE connamespace = quote_ident($1)::regnamespace AND contype <> 'n' ORDER BY conname
"""


class Database(Protocol):
    """One database of either dialect."""

    dsn: str

    def execute(self, sql: str) -> None:
        """Run one statement."""

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of one query."""

    def tables(self) -> set[str]:
        """The names of all tables."""

    def description(self) -> object:
        """Everything about all tables: equal if and only if they are."""


class SqliteFile:
    """A SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dsn = f"sqlite:///{path}"

    def execute(self, sql: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(sql)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(sql).fetchall()

    def tables(self) -> set[str]:
        found = self.fetch("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in found if not name.startswith("sqlite_")}

    def description(self) -> object:
        return self.fetch("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")


class PostgresSchema:
    """A schema of a PostgreSQL database."""

    def __init__(self, server: PostgresEndpoint, dsn: str, schema: str = "public") -> None:
        self.server = server
        self.dsn = dsn
        self.name = dsn.rpartition("/")[2]
        self.schema = schema

    def execute(self, sql: str) -> None:
        self.server.execute(sql, database=self.name)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.server.fetch(sql, database=self.name)]

    def tables(self) -> set[str]:
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = $1"
        found = self.server.fetch(sql, self.schema, database=self.name)
        return {row["tablename"] for row in found}

    def description(self) -> object:
        return [
            self.server.fetch(sql, self.schema, database=self.name)
            for sql in (_COLUMNS, _INDEXES, _CONSTRAINTS)
        ]
