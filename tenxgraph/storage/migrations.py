"""For applications with an Alembic of their own in the same database."""

from collections.abc import Callable, Mapping
from typing import Any

from tenxgraph.storage.sql.models import SCHEMA_VERSION_TABLE, Base

__all__ = ["IncludeName", "ignore_tenxgraph"]

IncludeName = Callable[[str | None, Any, Any], bool]
"""A function as Alembic's `context.configure(include_name=...)` takes it."""


def ignore_tenxgraph(schema: str | None = None, also: IncludeName | None = None) -> IncludeName:
    """Make a filter for the `env.py` of an application, which leaves tenxgraph's tables alone.

    Without it `alembic revision --autogenerate` finds tables in the database that the application
    has no models of, and writes a revision that drops them.

    Args:
        schema: the PostgreSQL schema of tenxgraph's tables; by default the connection's own.
        also: the application's own filter, which must agree as well.
    """

    def include_name(name: str | None, kind: Any, parents: Mapping[str, Any]) -> bool:
        if kind == "table" and name in _TABLES and _is_in(parents.get("schema_name"), schema):
            return False
        return also is None or also(name, kind, parents)

    return include_name


_TABLES = frozenset(Base.metadata.tables) | {SCHEMA_VERSION_TABLE}


def _is_in(found: str | None, schema: str | None) -> bool:
    """Return True if Alembic's name of a schema, None for the default one, is that schema."""
    return found == schema or (found is None and schema == "public")
