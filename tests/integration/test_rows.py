"""The rows as an administrator sees them: who owns what, what is left behind, what damage does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Database, PostgresSchema, SqliteFile
from threads import config, message, state, texts

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import (
    BaseCheckpointer,
    ThreadInfo,
    ToolExecution,
    create_checkpointer,
)

TABLES = ("threads", "states", "messages", "tool_executions")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return SqliteFile(tmp_path / "threads.db")
    server = request.getfixturevalue("postgres_server")
    return PostgresSchema(server, request.getfixturevalue("postgres_dsn"))


@pytest.fixture
def checkpointer(database: Database) -> Iterator[BaseCheckpointer[AgentState]]:
    made: BaseCheckpointer[AgentState] = create_checkpointer(database.dsn)
    made.setup()
    yield made
    made.close()


def counts(database: Database) -> list[int]:
    return [database.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES]


def fill(checkpointer: BaseCheckpointer[AgentState], thread_id: str = "t") -> None:
    mine = config(thread_id)
    checkpointer.put_state(mine, state("a"))
    checkpointer.put_state(mine, state("a", "b"))
    execution = ToolExecution(message_id="b", position=0, tool_name="f", status="started")
    checkpointer.put_tool_result(mine, execution)


def test_only_threads_know_their_owner(
    database: Database, checkpointer: BaseCheckpointer[AgentState]
) -> None:
    fill(checkpointer)
    assert database.fetch("SELECT user_id FROM threads") == [("u",)]
    for table in TABLES[1:]:
        with pytest.raises(Exception, match="user_id"):
            database.fetch(f"SELECT user_id FROM {table}")


def test_a_version_is_one_row(
    database: Database, checkpointer: BaseCheckpointer[AgentState]
) -> None:
    fill(checkpointer)
    with pytest.raises(Exception, match=r"(?i)unique"):
        database.execute("UPDATE states SET version = 2 WHERE version = 1")


def test_deleting_a_thread_leaves_no_row_behind(
    database: Database, checkpointer: BaseCheckpointer[AgentState]
) -> None:
    fill(checkpointer)
    fill(checkpointer, "other")
    checkpointer.clean_thread(config())
    assert counts(database) == [1, 2, 2, 1]
    checkpointer.clean_thread(config("other"))
    assert counts(database) == [0, 0, 0, 0]


def test_deleting_a_message_leaves_no_revision_behind(
    database: Database, checkpointer: BaseCheckpointer[AgentState]
) -> None:
    fill(checkpointer)
    checkpointer.put_messages(config(), [message("a").model_copy(update={"metadata": {"x": 1}})])
    assert counts(database)[2] == 3
    checkpointer.delete_message(config(), "a")
    assert counts(database)[2] == 1


def test_a_state_holds_no_message(
    database: Database, checkpointer: BaseCheckpointer[AgentState]
) -> None:
    checkpointer.put_state(config(), state("a very particular text"))
    [(stored,)] = database.fetch("SELECT CAST(state_data AS TEXT) FROM states")
    assert "particular" not in stored


def test_order_does_not_depend_on_where_rows_lie(
    database: Database, checkpointer: BaseCheckpointer[AgentState]
) -> None:
    numbers = [str(i) for i in range(50)]
    checkpointer.put_messages(config(), [message(text) for text in numbers])
    for number in (40, 3, 17):  # rewritten rows move to the end of a PostgreSQL table
        database.execute(f"UPDATE messages SET role = role WHERE message_id = '{number}'")
    database.execute("VACUUM" if isinstance(database, SqliteFile) else "VACUUM FULL messages")
    assert [one.text() for one in checkpointer.list_messages(config())] == numbers
    assert [one.text() for one in checkpointer.list_messages(config(), last=2)] == ["48", "49"]


@pytest.mark.parametrize(
    "damage", ['{"context": "all"}', "{}", '{"context":[[1,2]],"context_summary":5}']
)
def test_a_damaged_version_is_in_nobodys_way(
    database: Database, checkpointer: BaseCheckpointer[AgentState], damage: str
) -> None:
    fill(checkpointer)
    fill(checkpointer, "other")
    database.execute(
        f"UPDATE states SET state_data = '{damage}' WHERE version = 2 AND thread_id = 't'"
    )
    with pytest.raises(SerializationError, match="Thread 't', version 2, cannot be read"):
        checkpointer.get_state(config())
    assert texts(checkpointer.get_state(config(), 1)) == ["a"]
    assert [one.version for one in checkpointer.list_states(config())] == [2, 1]
    assert len(checkpointer.list_threads(config())) == 2
    assert len(checkpointer.list_messages(config())) == 2
    assert texts(checkpointer.get_state(config("other"))) == ["a", "b"]
    checkpointer.put_thread(config(), ThreadInfo(thread_id="t", thread_name="mended"))
    mine = config(_checkpoint_version=2)
    checkpointer.put_state(mine, state("a", "b"))
    assert texts(checkpointer.get_state(config())) == ["a", "b"]
    assert checkpointer.clean_thread(config())


def test_an_envelope_planted_in_a_row_runs_nothing(
    database: Database, checkpointer: BaseCheckpointer[AgentState], tmp_path: Path
) -> None:
    fill(checkpointer)
    trap = tmp_path / "pwned"
    envelope = f'{{"$t":"object","c":"subprocess.Popen","v":{{"args":["touch","{trap}"]}}}}'
    database.execute(
        f"""UPDATE states SET state_data = '{{"context":[],"x":{envelope}}}' WHERE version = 2"""
    )
    with pytest.raises(SerializationError, match=r"subprocess\.Popen"):
        checkpointer.get_state(config())
    assert not trap.exists()
