"""Load 50 recorded agent conversations as threads, one durable write per turn.

    python examples/replay_conversations.py conversations.db
    python examples/replay_conversations.py postgresql://user:password@localhost/agents

The counts are the same on both. A thread that is there already is replaced.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import func, literal_column, select
from sqlalchemy.ext.asyncio import create_async_engine

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage import create_checkpointer

DATA = Path(__file__).parent / "data" / "airline_conversations.jsonl"
TABLES = ("threads", "states", "messages", "tool_executions")
Conversation = tuple[str, list[list[Message]]]


def conversations() -> Iterator[Conversation]:
    """The recorded conversations by id, in turns: what a user said, and what followed."""
    for line in DATA.read_text().splitlines():
        record = json.loads(line)
        turns: list[list[Message]] = []
        for message in map(Message.from_openai, record["messages"]):
            if message.role == "user" or not turns:
                turns.append([])
            turns[-1].append(message)
        yield record["conversation"], turns


def draw_progress(done: int, total: int) -> None:
    """One line that fills up, on a terminal; nothing where the output goes elsewhere."""
    if sys.stderr.isatty():
        bar = "#" * (done * 40 // total)
        print(f"\r[{bar:<40}] {done}/{total} writes", end="", file=sys.stderr, flush=True)


async def replay(dsn: str, recorded: list[Conversation]) -> list[tuple[str, int, int]]:
    """Write every turn; return each thread's id, number of messages and version."""
    checkpointer = create_checkpointer(dsn)
    await checkpointer.asetup()
    total = sum(len(turns) for _, turns in recorded)
    done = 0
    counts = []
    for thread_id, turns in recorded:
        config: dict[str, Any] = {"thread_id": thread_id, "user_id": "airline"}
        await checkpointer.aclean_thread(config)
        state = AgentState()
        for turn in turns:
            state.context.extend(turn)
            await checkpointer.aput_checkpoint(config, state)
            done += 1
            draw_progress(done, total)
        messages = await checkpointer.alist_messages(config)
        counts.append((thread_id, len(messages), int(config["_checkpoint_version"])))
    await checkpointer.aclose()
    return counts


async def bytes_on_disk(dsn: str) -> int:
    """How much the database takes."""
    if "://" not in dsn or dsn.startswith("sqlite"):
        path = Path(dsn.partition(":///")[2] or dsn)
        files = (path, path.with_name(f"{path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())
    engine = create_async_engine(f"postgresql+asyncpg://{dsn.partition('://')[2]}")
    sizes = (func.pg_total_relation_size(literal_column(f"'{name}'")) for name in TABLES)
    async with engine.connect() as connection:
        total = sum((await connection.execute(select(*sizes))).one())
    await engine.dispose()
    return int(total)


async def main(dsn: str) -> None:
    """Replay, and say what came of it."""
    recorded = list(conversations())
    started = time.perf_counter()
    counts = await replay(dsn, recorded)
    seconds = time.perf_counter() - started
    print(f"\n{'thread':<14}{'messages':>10}{'version':>10}", file=sys.stderr)
    for thread_id, messages, version in counts:
        print(f"{thread_id:<14}{messages:>10}{version:>10}")
    writes = sum(version for _, _, version in counts)
    print(f"{'total':<14}{sum(m for _, m, _ in counts):>10}{writes:>10}")
    print(f"{await bytes_on_disk(dsn):,} bytes on disk, {writes / seconds:,.0f} writes per second")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1].startswith("postgres") and not find_spec("asyncpg"):
        sys.exit('This example needs, for PostgreSQL: pip install "tenxgraph[postgres]"')
    asyncio.run(main(sys.argv[1]))
