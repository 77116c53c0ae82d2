"""What a thread takes on disk, with all its kept snapshots, beside its messages as JSON."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from servers.postgres import PostgresEndpoint
from threads import config

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.checkpointer import BaseCheckpointer

MESSAGES = 1_000
SNAPSHOTS = 20

_SIZE = """
    SELECT sum(pg_total_relation_size(oid))::bigint AS size FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""


class Measured:
    """An empty database, and how many bytes its tables have come to take since."""

    def __init__(self, dsn: str, server: PostgresEndpoint | None) -> None:
        self.kept: BaseCheckpointer[AgentState] = create_checkpointer(dsn)
        self._dsn = dsn
        self._server = server
        self._empty = 0

    async def begin(self) -> None:
        await self.kept.asetup()
        self._empty = await self.bytes()

    async def bytes(self) -> int:
        await self.kept.aclose()
        return self._bytes() - self._empty

    def _bytes(self) -> int:
        if self._server is None:
            return os.path.getsize(self._dsn)
        name = self._dsn.rpartition("/")[2]
        self._server.execute("VACUUM", database=name)
        return int(self._server.fetch(_SIZE, database=name)[0]["size"])


@pytest.fixture(params=["sqlite", "postgres"])
async def measured(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Measured]:
    if request.param == "sqlite":
        made = Measured(str(tmp_path / "threads.db"), None)
    else:
        server = request.getfixturevalue("postgres_server")
        made = Measured(request.getfixturevalue("empty_postgres"), server)
    await made.begin()
    yield made
    await made.kept.aclose()


def message(number: int) -> Message:
    """About 500 characters, as one of a conversation has; random enough not to be compressed."""
    words = " ".join(f"{number * 7919 + i * 104729:x}" for i in range(70))
    return Message.text_message(f"{number} {words}", "assistant" if number % 2 else "user")


async def converse(
    kept: BaseCheckpointer[AgentState], messages: int, window: int | None = None
) -> int:
    """Turns of two messages, each a durable write; the bytes of the messages as JSON."""
    of_run, context, size = config(), list[Message](), 0
    for number in range(0, messages, 2):
        new = [message(number), message(number + 1)]
        size += sum(len(one.model_dump_json().encode()) for one in new)
        context = [*context, *new][-(window or messages) :]
        await kept.aput_state(of_run, AgentState(context=context))
    return size


@pytest.mark.parametrize("window", [None, 50])
async def test_a_thread_takes_at_most_twice_its_messages(
    window: int | None, measured: Measured
) -> None:
    size = await converse(measured.kept, MESSAGES, window)
    assert len(await measured.kept.alist_states(config())) == SNAPSHOTS
    assert len(await measured.kept.alist_messages(config())) == MESSAGES
    ratio = await measured.bytes() / size
    assert ratio <= 2.0, f"{ratio:.2f}"


async def test_twice_as_long_takes_twice_the_space(measured: Measured) -> None:
    taken = []
    for messages in (300, 600):
        await converse(measured.kept, messages)
        taken.append(await measured.bytes())
        await measured.kept.aclean_thread(config())
    assert taken[1] < 2.3 * taken[0], taken
