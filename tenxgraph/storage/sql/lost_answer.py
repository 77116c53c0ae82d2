"""What became of a write whose answer was lost: found out, never guessed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.exc import DBAPIError

from tenxgraph.core.exceptions import StaleStateError, TransientStorageError
from tenxgraph.storage.backend import Committed, Write
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.errors import is_connection_lost
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.postgres_database import PostgresDatabase

__all__ = ["LostAnswer"]

Attempt = Callable[[Scope, Write], Awaitable[Committed]]

# Seconds before each further try: a server that restarts is back within a few.
_PAUSES = (0.0, 0.2, 1.0, 3.0)


class LostAnswer:
    """Looks for the `write_id` that the writer made.

    Found: the write succeeded. Not found: it is tried again, bound to the version that the thread
    has now, so that the first attempt and the second cannot both take effect, even where the
    server is still busy with the first.
    """

    def __init__(self, tables: Tables) -> None:
        threads, states, messages = tables.threads, tables.states, tables.messages
        self._written = (
            select(states.c.version, threads.c.generation, threads.c.stop_requested)
            .join(threads, threads.c.thread_id == states.c.thread_id)
            .where(
                states.c.thread_id == bindparam("p_thread"),
                states.c.write_id == bindparam("p_write_id", type_=states.c.write_id.type),
            )
        )
        self._seqs = select(messages.c.message_id, messages.c.seq).where(
            messages.c.thread_id == bindparam("p_thread"),
            messages.c.message_id.in_(bindparam("p_ids", expanding=True)),
            messages.c.replaced_by.is_(None),
        )
        self._version = select(threads.c.version).where(
            threads.c.thread_id == bindparam("p_thread")
        )

    async def resolve(
        self,
        database: PostgresDatabase,
        scope: Scope,
        write: Write,
        attempt: Attempt,
        error: BaseException,
    ) -> Committed:
        """Find out, and write again if it was not written.

        Raises:
            TransientStorageError: the database stayed away, so nobody can know.
            StaleStateError: it was not written, and another run has committed since.
        """
        pinned = scope
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            try:
                known = await database.once(lambda c: self._find(c, scope, write))
                if isinstance(known, Committed):
                    return known
                if write.state is not None and pinned.expected_version is None:
                    pinned = replace(scope, expected_version=known)
                return await attempt(pinned, write)
            except StaleStateError:
                # The first attempt may have arrived in between: then this is its success.
                late = await database.once(lambda c: self._find(c, scope, write))
                if isinstance(late, Committed):
                    return late
                raise
            except (DBAPIError, OSError) as again:
                if not is_connection_lost(again):
                    raise
                error = again
        message = (
            f"The connection was lost during a write to thread {scope.thread_id!r}, and the "
            "database stayed away. Whether the write took effect is not known. Read the thread "
            "before writing again."
        )
        raise TransientStorageError(
            message, code="outcome_unknown", thread_id=scope.thread_id
        ) from error

    def _find(self, connection: Connection, scope: Scope, write: Write) -> Committed | int:
        """What the write did, or the thread's version now."""
        key = {"p_thread": scope.thread_id}
        row = connection.execute(self._written, {**key, "p_write_id": write.write_id}).first()
        if row is None:
            return connection.execute(self._version, key).scalar_one_or_none() or 0
        ids = [message.message_id for message in write.messages]
        found = connection.execute(self._seqs, {**key, "p_ids": ids}).all() if ids else []
        seqs = dict(row.tuple() for row in found)
        return Committed(row.version, row.generation, [seqs.get(i, 0) for i in ids], row[2])
