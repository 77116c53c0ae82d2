"""What a listing of threads costs in a database of many, against one of few.

    python benchmarks/listing.py [--rounds 40]

Starts its own PostgreSQL. All threads of both databases are one user's. Listings that are compared
are taken in turn, and medians are told.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from figures import Step, check, finish, medians
from servers import PostgresServer

from tenxgraph.core.state import AgentState
from tenxgraph.storage.checkpointer import PostgresCheckpointer

FEW, MANY = 500, 50_000

FILL = """
    INSERT INTO threads (thread_id, user_id, thread_name, meta, generation, version, last_seq,
                         stop_requested, created_at, updated_at)
    SELECT 't' || n, 'u', 'Chat ' || n, jsonb_build_object('tenant', 'acme', 'order', n),
           gen_random_uuid(), 0, 0, false, now(), now() - n * interval '1 second'
    FROM generate_series(1, {count}) AS n
"""

LISTINGS: dict[str, dict[str, Any]] = {
    "the newest 20": {"limit": 20},
    "by metadata that one thread has": {"filter": {"order": 400}},
    "by metadata that all have, 20 of them": {"filter": {"tenant": "acme"}, "limit": 20},
    "by a name that many have, 20 of them": {"search": "chat", "limit": 20},
    "by a name that one thread has": {"search": "chat 499"},
}
# Names are looked through one by one; see docs/checkpointers.md.
UNBOUNDED = {"by a name that one thread has"}


def filled(server: PostgresServer, count: int) -> str:
    """A database with so many threads of one user."""
    dsn = server.create_database(f"threads_{count}")
    kept = PostgresCheckpointer[AgentState](dsn)
    kept.setup()
    kept.close()
    for sql in (FILL.format(count=count), "VACUUM ANALYZE threads"):
        server.execute(sql, database=f"threads_{count}")
    return dsn


async def listings(dsns: dict[int, str], rounds: int, *, isolated: bool) -> None:
    """Take each listing in both databases."""
    opened = {
        count: PostgresCheckpointer[AgentState](dsn, enforce_user_isolation=isolated)
        for count, dsn in dsns.items()
    }

    def step(count: int, query: dict[str, Any]) -> Step:
        return lambda: opened[count].alist_threads({"user_id": "u"}, **query)

    for name, query in LISTINGS.items():
        steps = {str(count): step(count, query) for count in opened}
        few, many = (await medians(steps, rounds)).values()
        print(f"{name}, isolation {'on' if isolated else 'off'}: {few:.2f} ms, {many:.2f} ms")
        if name not in UNBOUNDED:
            check(f"{name}: {MANY:,} threads / {FEW}", many / few, 2)
    for one in opened.values():
        await one.aclose()


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    with PostgresServer() as server:
        dsns = {count: filled(server, count) for count in (FEW, MANY)}
        for isolated in (True, False):
            asyncio.run(listings(dsns, rounds, isolated=isolated))
    finish()


if __name__ == "__main__":
    main()
