"""Runs the migrations: on the connection that `setup()` hands over, else on TENXGRAPH_DSN."""

import asyncio
import logging
import os

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, func, select, true
from sqlalchemy.engine.interfaces import Dialect

from tenxgraph.storage.sql import migrate
from tenxgraph.storage.sql.databases import open_database
from tenxgraph.storage.sql.models import SCHEMA_VERSION_TABLE, Base


def ours(name: str | None, kind: str, _parents: object) -> bool:
    """Look only at our tables: the database may hold an application's own."""
    return kind != "table" or name in Base.metadata.tables


def work_in(connection: Connection, schema: str | None) -> None:
    """Make `schema` the one that every statement of this transaction means."""
    if schema is not None and connection.dialect.name == "postgresql":
        quoted = connection.dialect.identifier_preparer.quote_identifier(schema)
        connection.execute(select(func.set_config("search_path", quoted, true())))
        dialect: Dialect = connection.dialect
        dialect.default_schema_name = schema


def run(connection: Connection, schema: str | None) -> None:
    """Run the migrations in the connection's transaction, one process at a time."""
    migrate.lock(connection, schema)
    migrate.make_schema(connection, schema)
    found = connection.dialect.default_schema_name
    work_in(connection, schema)
    try:
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            include_name=ours,
            version_table=SCHEMA_VERSION_TABLE,
            version_table_schema=schema,
            render_as_batch=connection.dialect.name == "sqlite",
        )
        with context.begin_transaction():
            context.run_migrations()
        migrate.drop_empty_history(connection, schema)
    finally:
        connection.dialect.default_schema_name = found


async def run_on_environment() -> None:
    """Run the migrations on the database that the environment names."""
    told = os.environ.get
    try:
        database = open_database(told("TENXGRAPH_DSN"), told("TENXGRAPH_SCHEMA"))
    except ValueError as error:
        raise CommandError(str(error)) from error
    logging.basicConfig(format="%(levelname)-5.5s [%(name)s] %(message)s")
    logging.getLogger("alembic.runtime.migration").setLevel(logging.INFO)
    try:
        await database.write(lambda connection: run(connection, database.schema))
    finally:
        await database.close()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over, context.config.attributes.get("schema"))
else:
    asyncio.run(run_on_environment())
