"""Schemas other than `public`, and roles that may not do everything."""

from collections.abc import Iterator

import programs
import pytest
from databases import PostgresSchema
from servers.postgres import PostgresEndpoint
from threads import config, state, texts

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer

Postgres = PostgresCheckpointer[AgentState]

SCHEMAS = ("tenant_a", "Weird-Name", "select", 'qu"ote', "50%", "a.b", "ümläut", "x" * 63)

ROLE = "may_not_create"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def role(postgres_server: PostgresEndpoint, empty_postgres: str) -> Iterator[str]:
    """The DSN of a role that may do nothing yet."""
    name = f"{ROLE}_{empty_postgres[-8:]}"
    database = empty_postgres.rpartition("/")[2]
    postgres_server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'p%ss'")
    yield postgres_server.dsn(database, name, "p%ss")
    postgres_server.drop_database(database)
    postgres_server.execute(f"DROP ROLE {name}")


async def test_every_schema_is_a_place_of_its_own(
    postgres_server: PostgresEndpoint, empty_postgres: str
) -> None:
    reference = None
    for schema in SCHEMAS:
        async with Postgres(empty_postgres, schema=schema) as kept:
            await kept.asetup()
            await kept.asetup()
            written = await kept.aput_state(config(), state(schema, "edited"))
            await kept.aput_state(config(), written)
            await kept.aput_messages(config(), state("edited", "more").context)
            await kept.adelete_message(config(), "more")
        made = PostgresSchema(postgres_server, empty_postgres, schema)
        reference = reference or made.tables()
        assert made.tables() == reference
    assert PostgresSchema(postgres_server, empty_postgres).tables() == set()
    for schema in SCHEMAS:
        async with Postgres(empty_postgres, schema=schema) as kept:
            assert texts(await kept.aget_state(config())) == [schema, "edited"]
            assert len(await kept.alist_threads(config())) == 1
            assert await kept.aclean_thread(config())


def test_the_command_takes_a_schema(postgres_server: PostgresEndpoint, empty_postgres: str) -> None:
    schema = "Weird-Name"
    by_command = PostgresSchema(postgres_server, empty_postgres, schema)
    programs.alembic("upgrade", "head", dsn=empty_postgres, schema=schema)
    checked = programs.alembic("check", dsn=empty_postgres, schema=schema)
    assert "No new upgrade operations" in checked
    made = by_command.description()
    kept = Postgres(empty_postgres, schema=schema)
    kept.setup()
    kept.close()
    assert by_command.description() == made
    assert PostgresSchema(postgres_server, empty_postgres).tables() == set()
    programs.alembic("downgrade", "base", dsn=empty_postgres, schema=schema)
    assert by_command.tables() == set()


@pytest.mark.parametrize("schema", ["public", "tenant"])
async def test_a_role_that_may_not_create_gets_by_where_all_is_made(
    schema: str, role: str, empty_postgres: str, postgres_server: PostgresEndpoint
) -> None:
    async with Postgres(empty_postgres, schema=schema) as owner:
        await owner.asetup()
    name = role.partition("://")[2].partition(":")[0]
    PostgresSchema(postgres_server, empty_postgres).execute(f"""
        GRANT USAGE ON SCHEMA {schema} TO {name};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {name};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {name};
    """)
    async with Postgres(role, schema=schema) as kept:
        await kept.asetup()
        await kept.aput_state(config(), state("a"))
        assert texts(await kept.aget_state(config())) == ["a"]


@pytest.mark.parametrize("schema", ["public", "there", "not there"])
async def test_a_role_that_may_not_create_is_told_which_right_it_lacks(
    schema: str, role: str, empty_postgres: str, postgres_server: PostgresEndpoint
) -> None:
    database = PostgresSchema(postgres_server, empty_postgres, schema)
    database.execute("CREATE SCHEMA there")
    name = role.partition("://")[2].partition(":")[0]
    database.execute(f"GRANT USAGE ON SCHEMA there TO {name}")
    async with Postgres(role, schema=schema) as kept:
        with pytest.raises(StorageError, match=f"CREATE.*{schema}") as caught:
            await kept.asetup()
    assert caught.value.code == "missing_privilege"
    assert database.tables() == set()
