"""Reading a state on PostgreSQL: the row and the messages of its context in one query."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.types import NULLTYPE

from tenxgraph.storage.backend import Head, StateRow
from tenxgraph.storage.scope import Scope
from tenxgraph.storage.sql.models import Tables
from tenxgraph.storage.sql.ownership import caller, this_thread

__all__ = ["OneQueryRead"]

# The context at the beginning of a row: found by looking, as parsing JSON would read all of it.
_CONTEXT = r'^\{"context":(\[(?:\[-?\d{1,18},-?\d{1,18}\],?)*\])'


class OneQueryRead:
    """The statement that loads a state, made once."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        threads = tables.threads
        state = self._newest_or_wanted()
        context = self._messages_of(state)
        self._load = (
            select(
                threads.c.version,
                threads.c.generation,
                threads.c.stop_requested,
                state.c.version,
                cast(state.c.state_data, Text),
                state.c.base_seq,
                context.c.seqs,
                context.c.texts,
            )
            .select_from(threads.outerjoin(state, true()).outerjoin(context, true()))
            .where(this_thread(threads))
        )

    def __call__(
        self, connection: Connection, scope: Scope, version: int | None
    ) -> StateRow | None:
        """The newest state, or the one of `version`, with the thread's head and its messages."""
        parameters = {**caller(scope), "p_version": version}
        row = connection.execute(self._load, parameters).one_or_none()
        if row is None:
            return None
        seqs, texts = row[6], row[7]
        messages = None if seqs is None else dict(zip(seqs, texts, strict=True))
        return StateRow(Head(*row[:3]), row[3] or 0, row[4], row[5] or 0, messages)

    def _newest_or_wanted(self) -> Any:
        threads, states = self._tables.threads, self._tables.states
        wanted = bindparam("p_version", type_=BigInteger)
        return (
            select(states.c.version, states.c.state_data, states.c.base_seq)
            .where(
                states.c.thread_id == threads.c.thread_id,
                or_(wanted.is_(None), states.c.version == wanted),
            )
            .order_by(states.c.version.desc(), states.c.state_id.desc())
            .limit(literal_column("1"))
            .lateral("state")
        )

    def _messages_of(self, state: Any) -> Any:
        """All of a context in two arrays: a row for each message would cost more than it holds."""
        context = func.substring(cast(state.c.state_data, Text), literal_column(f"'{_CONTEXT}'"))
        ranges = (
            func.json_array_elements(cast(context, JSON))
            .table_valued(column("range", JSON))
            .render_derived("ranges")
        )
        first, last = (self._seq(ranges.c.range, place, state.c.base_seq) for place in "01")
        piece = self._between(first, last)
        found = select(
            # Lists, as the driver makes them; ARRAY would look at each item once more.
            func.array_agg(piece.c.seq, type_=NULLTYPE).label("seqs"),
            func.array_agg(piece.c.text, type_=NULLTYPE).label("texts"),
        ).select_from(ranges.join(piece, true()))
        return found.correlate(self._tables.threads, state).lateral("context")

    def _between(self, first: Any, last: Any) -> Any:
        """One range; behind a fence, lest all messages of a thread be read for its last few."""
        threads, messages = self._tables.threads, self._tables.messages
        return (
            select(messages.c.seq, cast(messages.c.data, Text).label("text"))
            .where(messages.c.thread_id == threads.c.thread_id, messages.c.seq.between(first, last))
            .offset(literal_column("0"))
            .correlate_except(messages)
            .lateral("piece")
        )

    @staticmethod
    def _seq(pair: ColumnElement[Any], place: str, base_seq: ColumnElement[int]) -> Any:
        number = cast(func.json_extract_path_text(pair, literal_column(f"'{place}'")), BigInteger)
        return case((number > literal_column("0"), number), else_=base_seq - number)
