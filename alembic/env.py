"""Runs the migrations: on the connection that `setup()` hands over, else on TENXGRAPH_DSN."""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, Select, func, select, true
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.schema import CreateSchema, DropTable

from tenxgraph.core.exceptions import StorageError
from tenxgraph.storage.sql import migrate
from tenxgraph.storage.sql.databases import open_database
from tenxgraph.storage.sql.models import POSTGRES_INDEXES, SCHEMA_VERSION_TABLE, Base
from tenxgraph.storage.sql.postgres_database import PostgresDatabase
from tenxgraph.storage.sql.sqlite_database import SqliteDatabase


def ours(name: str | None, kind: str, _parents: object) -> bool:
    """Look only at our tables: the database may hold an application's own."""
    return kind != "table" or name in Base.metadata.tables


def expected_on(dialect: str) -> Callable[..., bool]:
    """What the tables of a dialect must have; others are not missed."""

    def expected(_item: object, name: str | None, kind: str, *_: object) -> bool:
        return kind != "index" or dialect != "sqlite" or name not in POSTGRES_INDEXES

    return expected


def options(dialect: str, schema: str | None) -> dict[str, Any]:
    """What Alembic has to know, with and without a connection."""
    return {
        "target_metadata": Base.metadata,
        "include_name": ours,
        "include_object": expected_on(dialect),
        "version_table": SCHEMA_VERSION_TABLE,
        "version_table_schema": schema,
        "render_as_batch": dialect == "sqlite",
    }


def search_path(dialect: Dialect, schema: str) -> Select[Any]:
    """Make `schema` the one that every statement of this transaction means."""
    quoted = dialect.identifier_preparer.quote_identifier(schema)
    return select(func.set_config("search_path", quoted, true()))


def work_in(connection: Connection, schema: str | None) -> None:
    """Have this transaction's statements and Alembic's comparisons mean `schema`."""
    if schema is not None and connection.dialect.name == "postgresql":
        dialect: Dialect = connection.dialect
        connection.execute(search_path(dialect, schema))
        dialect.default_schema_name = schema


def run(connection: Connection, schema: str | None) -> None:
    """Run the migrations in the connection's transaction, one process at a time."""
    migrate.lock(connection, schema)
    migrate.refuse_taken_names(connection, schema)
    found = connection.dialect.default_schema_name
    try:
        with migrate.explaining(schema):
            migrate.make_schema(connection, schema)
            work_in(connection, schema)
            context.configure(connection=connection, **options(connection.dialect.name, schema))
            with context.begin_transaction():
                context.run_migrations()
            migrate.drop_empty_history(connection, schema)
    finally:
        connection.dialect.default_schema_name = found


def write_script(dialect: str, schema: str | None) -> None:
    """Write the migrations as one transaction, to be run by hand; connects to nothing."""
    context.configure(
        dialect_name=dialect,
        dialect_opts={"paramstyle": "named"},  # else every % in a name would be doubled
        literal_binds=True,
        transactional_ddl=True,
        **options(dialect, schema),
    )
    with context.begin_transaction():
        if schema is not None:
            for statement in migrate.lock_statements(schema):
                context.execute(statement)
            if schema != "public":  # every database has that one, and not every role may make it
                context.execute(CreateSchema(schema, if_not_exists=True))
            context.execute(search_path(context.get_context().dialect, schema))
        context.run_migrations()
        if context.get_revision_argument() in (None, "base", ()):
            context.execute(DropTable(migrate.history(schema)))


def database_of_environment() -> PostgresDatabase | SqliteDatabase:
    """The database that the environment names; nothing is connected yet."""
    told = os.environ.get
    try:
        return open_database(told("TENXGRAPH_DSN"), told("TENXGRAPH_SCHEMA"))
    except ValueError as error:
        raise CommandError(str(error)) from error


async def run_on_environment() -> None:
    """Run the migrations on the database that the environment names."""
    database = database_of_environment()
    logging.basicConfig(format="%(levelname)-5.5s [%(name)s] %(message)s")
    logging.getLogger("alembic.runtime.migration").setLevel(logging.INFO)
    try:
        await database.write(lambda connection: run(connection, database.schema))
    except StorageError as error:
        raise CommandError(str(error)) from error
    finally:
        await database.close()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over, context.config.attributes.get("schema"))
elif context.is_offline_mode():
    named = database_of_environment()
    write_script("sqlite" if named.schema is None else "postgresql", named.schema)
else:
    asyncio.run(run_on_environment())
