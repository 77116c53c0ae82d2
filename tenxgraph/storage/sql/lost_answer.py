"""What became of a write whose answer was lost: found out, never guessed."""

import asyncio

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.exc import DBAPIError

from tenxgraph.core.exceptions import TransientStorageError
from tenxgraph.storage.backend import Committed, Write
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.errors import is_connection_lost
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.postgres_database import PostgresDatabase
from tenxgraph.storage.sql.write import WriteTransaction

__all__ = ["LostAnswer"]

# Seconds before each further try: a server that restarts is back within a few.
_PAUSES = (0.0, 0.2, 1.0, 3.0)


class LostAnswer:
    """Looks for the `write_id` that the writer made, and holds the thread's lock while it does.

    Found: the write succeeded. Not found: it is written now, before the lock is given up, so that
    no other writer comes in between. If the server should still be busy with the first attempt,
    that one comes too late: its version is taken, and so are the ids of its messages.
    """

    def __init__(self, tables: Tables, write_transaction: WriteTransaction) -> None:
        states, messages = tables.states, tables.messages
        self._transaction = write_transaction
        self._version = select(states.c.version).where(
            states.c.thread_id == bindparam("p_thread"),
            states.c.write_id == bindparam("p_write_id", type_=states.c.write_id.type),
        )
        self._seqs = select(messages.c.message_id, messages.c.seq).where(
            messages.c.thread_id == bindparam("p_thread"),
            messages.c.message_id.in_(bindparam("p_ids", expanding=True)),
            messages.c.replaced_by.is_(None),
        )

    async def resolve(
        self, database: PostgresDatabase, scope: Scope, write: Write, error: BaseException
    ) -> Committed:
        """Find out, and write again if it was not written.

        Raises:
            TransientStorageError: the database stayed away, so nobody can know.
            StaleStateError: it was not written, and another run has committed since.
        """
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            try:
                return await database.transaction(lambda c: self._settle(c, scope, write))
            except (DBAPIError, OSError) as again:
                if not is_connection_lost(again):
                    raise
                error = again
                if isinstance(again, TimeoutError):
                    break  # each further try would take as long
        message = (
            f"The connection was lost during a write to thread {scope.thread_id!r}, and the "
            "database stayed away. Whether the write took effect is not known. Read the thread "
            "before writing again."
        )
        raise TransientStorageError(
            message, code="outcome_unknown", thread_id=scope.thread_id
        ) from error

    def _settle(self, connection: Connection, scope: Scope, write: Write) -> Committed:
        thread = self._transaction.lock(connection, scope, write)
        key = {"p_thread": scope.thread_id}
        version = connection.execute(
            self._version, {**key, "p_write_id": write.write_id}
        ).scalar_one_or_none()
        if version is None:
            return self._transaction.carry_out(connection, scope, write, thread)
        ids = [message.message_id for message in write.messages]
        seqs = dict(iter(connection.execute(self._seqs, {**key, "p_ids": ids}))) if ids else {}
        numbers = [seqs.get(message_id, 0) for message_id in ids]
        return Committed(version, thread.generation, numbers, thread.stop_requested)
