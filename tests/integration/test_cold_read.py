"""A state and its messages come from PostgreSQL in one query, however the context looks."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import event
from turns import IDS, texts

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import PostgresCheckpointer, SerializationError

Checkpointer = PostgresCheckpointer[Any]


@pytest.fixture
async def checkpointer(postgres_dsn: str) -> AsyncIterator[Checkpointer]:
    async with PostgresCheckpointer[Any](postgres_dsn) as made:
        yield made


async def _statements(checkpointer: Checkpointer) -> list[str]:
    engine = await checkpointer._backend._postgres.engine()  # type: ignore[attr-defined]
    sent: list[str] = []
    event.listen(engine.sync_engine, "before_cursor_execute", lambda *args: sent.append(args[2]))
    return sent


@pytest.mark.parametrize("order", [[], [0], [0, 1, 2, 3, 4, 5], [5, 0, 3, 1], [4, 2, 0], [1, 1, 1]])
async def test_one_query(checkpointer: Checkpointer, order: list[int]) -> None:
    state = AgentState(context=[Message.text_message(f"{i}") for i in range(6)])
    config = dict(IDS)
    await checkpointer.aput_state(config, state)
    state.context = [state.context[i] for i in order]
    await checkpointer.aput_state(config, state)
    sent = await _statements(checkpointer)
    assert texts(await checkpointer.aget_state(dict(IDS))) == [f"{i}" for i in order]
    assert texts(await checkpointer.aget_state(dict(IDS), 1)) == [f"{i}" for i in range(6)]
    assert len(sent) == 2


async def test_a_thread_without_a_state_is_one_query_too(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(dict(IDS), [Message.text_message("a")])
    sent = await _statements(checkpointer)
    config = dict(IDS)
    assert await checkpointer.aget_state(config) is None
    assert config["_checkpoint_version"] == 0
    assert len(sent) == 1


async def test_a_context_whose_messages_are_all_deleted(checkpointer: Checkpointer) -> None:
    state = AgentState(context=[Message.text_message("a"), Message.text_message("b")])
    await checkpointer.aput_state(dict(IDS), state)
    for message in state.context:
        await checkpointer.adelete_message(dict(IDS), message.message_id)
    assert texts(await checkpointer.aget_state(dict(IDS))) == []


@pytest.mark.parametrize(
    "damaged",
    ["[]", "7", '"text"', "null", "{}", '{"context":7}', '{"context":[["a","b"]]}',
     '{"context":[[1]]}',  '{"other":1,"context":[]}'],
)  # fmt: skip
async def test_a_damaged_row_is_told_and_the_older_one_is_read(
    checkpointer: Checkpointer, damaged: str
) -> None:
    config = dict(IDS)
    state = AgentState(context=[Message.text_message("a")])
    await checkpointer.aput_state(config, state)
    await checkpointer.aput_state(config, state)
    engine = await checkpointer._backend._postgres.engine()  # type: ignore[attr-defined]
    async with engine.connect() as connection:
        await connection.exec_driver_sql(
            f"UPDATE states SET state_data = '{damaged}' WHERE version = 2"
        )
    with pytest.raises(SerializationError, match="version 2"):
        await checkpointer.aget_state(dict(IDS))
    assert texts(await checkpointer.aget_state(dict(IDS), 1)) == ["a"]


async def test_a_row_that_was_written_with_spaces_is_read(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(dict(IDS), AgentState(context=[Message.text_message("a")]))
    engine = await checkpointer._backend._postgres.engine()  # type: ignore[attr-defined]
    async with engine.connect() as connection:
        await connection.exec_driver_sql(
            "UPDATE states SET state_data = "
            "replace(state_data::text, '[[-1,-1]]', '[ [-1, -1] ]')::json"
        )
    assert texts(await checkpointer.aget_state(dict(IDS))) == ["a"]
