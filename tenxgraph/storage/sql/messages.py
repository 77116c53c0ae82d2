"""Reading and deleting messages."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, or_, select

from tenxgraph.storage.backend import MessageQuery, Ranges, StoredMessage
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, mine, this_thread

__all__ = ["Messages"]

# A context of more pieces than this is read as one span, and what is not wanted dropped.
_MOST_RANGES = 8


class Messages:
    """The statements on messages, made once."""

    def __init__(self, tables: Tables) -> None:
        threads, messages = tables.threads, tables.messages
        self._messages = messages
        of_caller = (
            select(messages.c.seq, messages.c.position, messages.c.data)
            .join(threads, messages.c.thread_id == threads.c.thread_id)
            .where(this_thread(threads))
        )
        # By how many ranges there are: a statement made once is compiled once.
        self._by_ranges = [
            of_caller.where(
                or_(
                    *(
                        messages.c.seq.between(bindparam(f"p_first_{i}"), bindparam(f"p_last_{i}"))
                        for i in range(count)
                    )
                )
            ).order_by(messages.c.seq)
            for count in range(1, _MOST_RANGES + 1)
        ]
        self._live = of_caller.where(messages.c.replaced_by.is_(None))
        self._one = self._live.where(messages.c.message_id == bindparam("p_message"))
        owned = select(threads.c.thread_id).where(mine(threads))
        self._delete = delete(messages).where(
            messages.c.thread_id == bindparam("p_thread"),
            messages.c.thread_id.in_(owned),
            messages.c.message_id == bindparam("p_message"),
        )

    def by_number(
        self, connection: Connection, scope: Scope, ranges: Ranges
    ) -> list[StoredMessage]:
        """The messages of a context, each once, in order of their numbers."""
        if not ranges:
            return []
        asked = ranges if len(ranges) <= _MOST_RANGES else [_span(ranges)]
        parameters: dict[str, object] = caller(scope)
        for i, (first, last) in enumerate(asked):
            parameters[f"p_first_{i}"] = first
            parameters[f"p_last_{i}"] = last
        rows = connection.execute(self._by_ranges[len(asked) - 1], parameters)
        return [StoredMessage(*row) for row in rows]

    def one(self, connection: Connection, scope: Scope, message_id: str) -> StoredMessage | None:
        """The newest revision of a message."""
        row = connection.execute(
            self._one, {**caller(scope), "p_message": message_id}
        ).one_or_none()
        return None if row is None else StoredMessage(*row)

    def list(
        self, connection: Connection, scope: Scope, query: MessageQuery
    ) -> list[StoredMessage]:
        """Newest revisions, by position."""
        position = self._messages.c.position
        bounds: list[ColumnElement[bool]] = []
        if query.message_ids is not None:
            bounds.append(self._messages.c.message_id.in_(query.message_ids))
        if query.after is not None:
            bounds.append(position > query.after)
        if query.before is not None:
            bounds.append(position < query.before)
        statement = (
            self._live.where(and_(True, *bounds))
            .order_by(position.desc() if query.newest_first else position)
            .limit(query.limit)
        )
        if query.offset:
            # SQLite takes an OFFSET only behind a LIMIT; SQLAlchemy writes LIMIT -1 for it.
            statement = statement.offset(query.offset)
        return [StoredMessage(*row) for row in connection.execute(statement, caller(scope))]

    def delete(self, connection: Connection, scope: Scope, message_id: str) -> bool:
        """Remove a message in all its revisions."""
        parameters = {**caller(scope), "p_message": message_id}
        return connection.execute(self._delete, parameters).rowcount > 0


def _span(ranges: Ranges) -> Sequence[int]:
    return min(first for first, _ in ranges), max(last for _, last in ranges)
