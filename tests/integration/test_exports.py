"""Exports beside other work: each is the thread of one moment, or says that there is none."""

import asyncio
import json
from typing import Any

import pytest
from backends import Backend, Checkpointer
from databases import SqliteFile
from threads import config, message, state, texts

from tenxgraph.core.exceptions import SerializationError, StorageError
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import (
    InMemoryCheckpointer,
    PostgresCheckpointer,
    SqliteCheckpointer,
)

EXPORTS = {"postgres": 200, "sqlite": 40}
"""How many exports of each backend; 10 where a lock keeps reads and writes apart anyhow."""


async def exported(checkpointer: Checkpointer, thread_id: str = "t") -> list[str]:
    return [line async for line in checkpointer.aexport_thread(config(thread_id))]


async def imported(lines: list[str]) -> tuple[int, list[str], list[str]]:
    """The version, the context and all messages of an export, as its import has them."""
    other = InMemoryCheckpointer[AgentState]()
    mine = config()
    await other.aimport_thread(mine, lines)
    context = texts(await other.aget_state(mine))
    messages = [one.text() for one in await other.alist_messages(mine)]
    return mine["_checkpoint_version"], context, messages


class Writer:
    """Appends to a thread, edits it and trims it, and knows what each version held."""

    def __init__(self, checkpointer: Checkpointer) -> None:
        self.checkpointer = checkpointer
        self.config = config()
        self.versions: dict[int, tuple[list[str], list[str]]] = {}
        self.done = False
        self._all: dict[str, str] = {}
        self._turn = 0

    async def write(self) -> None:
        self._turn += 1
        turn = self._turn
        new = [Message.text_message(f"{turn} {n}", message_id=f"{turn} {n}") for n in range(3)]
        edited = Message.text_message(f"edited in {turn}", message_id="1 0")
        context = [edited, *new] if turn > 1 else new
        await self.checkpointer.aput_state(self.config, AgentState(context=context))
        self._all |= {one.message_id: one.text() for one in context}
        version = self.config["_checkpoint_version"]
        self.versions[version] = [one.text() for one in context], list(self._all.values())

    async def run(self) -> None:
        while not self.done:
            await self.write()
            await asyncio.sleep(0)


async def test_every_export_beside_a_writer_is_a_version_that_was(backend: Backend) -> None:
    writer = Writer(backend.make())
    await writer.write()
    writing = asyncio.create_task(writer.run())
    reader = backend.make()
    exports = [await exported(reader) for _ in range(EXPORTS.get(backend.name, 10))]
    writer.done = True
    await writing
    for lines in exports:
        version, context, messages = await imported(lines)
        assert (context, messages) == writer.versions[version]


async def test_every_export_beside_deletions_is_whole_or_not_found(backend: Backend) -> None:
    owner, reader = backend.make(), backend.make()
    done = False

    async def come_and_go() -> None:
        while not done:
            await owner.aput_state(config(), state("a", "b", "c"))
            await asyncio.sleep(0.001)
            await owner.aclean_thread(config())
            await asyncio.sleep(0.001)

    working = asyncio.create_task(come_and_go())
    outcomes: list[Any] = []
    for _ in range(EXPORTS.get(backend.name, 10)):
        try:
            outcomes.append((await imported(await exported(reader)))[1:])
        except StorageError as error:
            outcomes.append(error.code)
    done = True
    await working
    whole = (["a", "b", "c"], ["a", "b", "c"])
    assert [one for one in outcomes if one not in (whole, "not_found")] == []


async def test_what_happens_between_two_lines_is_not_in_the_export(backend: Backend) -> None:
    kept = backend.make()
    many = [str(number) for number in range(350)]
    await kept.aput_state(config(), state(*many))
    lines = kept.aexport_thread(config())
    begun = [await anext(lines) for _ in range(3)]
    other = backend.make()
    await other.aput_messages(config(), [message("late")])
    await other.adelete_message(config(), "349")
    await other.aclean_thread(config())
    rest = [line async for line in lines]
    assert await imported([*begun, *rest]) == (1, many, many)
    with pytest.raises(StorageError, match="no thread"):
        await exported(kept)


async def test_an_export_that_is_given_up_leaves_no_connection_open(postgres_dsn: str) -> None:
    kept: Checkpointer = PostgresCheckpointer(
        postgres_dsn, pool_size=1, max_overflow=0, pool_timeout=5
    )
    async with kept:
        await kept.aput_state(config(), state("a", "b"))
        for _ in range(3):
            lines = kept.aexport_thread(config())
            await anext(lines)
            await lines.aclose()
        assert len(await exported(kept)) == 4


async def test_a_long_export_holds_one_page_of_rows(postgres_dsn: str) -> None:
    async with PostgresCheckpointer[AgentState](postgres_dsn) as kept:
        await kept.aput_state(config(), state(*map(str, range(1000))))
        pages = kept._backend.read_archive(kept.scope(config()))
        sizes = [len(page.rows) async for page in pages]
    assert sum(sizes) == 1002
    assert max(sizes) <= 100


async def test_a_damaged_thread_is_an_error_of_the_export(
    sqlite_template: Any, tmp_path: Any
) -> None:
    database = SqliteFile(tmp_path / "threads.db")
    database.path.write_bytes(sqlite_template.read_bytes())
    async with SqliteCheckpointer[AgentState](database.path) as kept:
        await kept.aput_state(config(), state("a"))
        database.execute("""UPDATE states SET state_data = '{"context":[[1,7]]}'""")
        with pytest.raises(SerializationError, match=r"'t'.*State 1.*1 to 7; the thread has 1"):
            await exported(kept)


async def test_an_export_says_how_many_rows_follow(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("a", "b"))
    first, *rest = map(json.loads, await exported(checkpointer))
    assert first["rows"] == {"messages": 2, "states": 1, "tool_executions": 0}
    assert len(rest) == 3
