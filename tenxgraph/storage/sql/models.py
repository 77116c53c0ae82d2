"""The five tables: threads, states, messages, tool executions, and Alembic's schema version."""

from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tenxgraph.storage.sql.types import EscapedText, JsonText, SearchableJson, UtcDateTime

__all__ = [
    "POSTGRES_INDEXES",
    "SCHEMA_VERSION_TABLE",
    "Base",
    "Message",
    "State",
    "Tables",
    "Thread",
    "ToolExecution",
    "tables",
]

SCHEMA_VERSION_TABLE = "schema_version"
"""Alembic's version table, under a name that no host application's own Alembic uses."""

# SQLite numbers rows by itself only where the key is spelled INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """The declarative base of the five tables."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
        }
    )


class Thread(Base):
    """One conversation. Ownership lives here and nowhere else."""

    __tablename__ = "threads"

    thread_id: Mapped[str] = mapped_column(Text, primary_key=True)
    user_id: Mapped[str | None] = mapped_column(Text)
    thread_name: Mapped[str | None] = mapped_column(EscapedText)
    meta: Mapped[dict[str, Any]] = mapped_column(SearchableJson)
    generation: Mapped[UUID] = mapped_column(Uuid)
    """Which life of this id: a thread deleted and made anew is another one."""
    version: Mapped[int] = mapped_column(BigInteger)
    """The version of the newest state; 0 while there is none. Never goes back."""
    last_seq: Mapped[int] = mapped_column(BigInteger)
    """The number of the newest message."""
    stop_requested: Mapped[bool] = mapped_column(Boolean)
    lease_holder: Mapped[str | None] = mapped_column(Text)
    """The process and run that are at work on the thread."""
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When they are taken for dead if they say nothing more."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


Index("ix_threads_owner", Thread.user_id, Thread.updated_at.desc(), Thread.thread_id)
Index("ix_threads_recent", Thread.updated_at.desc(), Thread.thread_id)
Index(
    "ix_threads_meta",
    Thread.meta,
    postgresql_using="gin",
    postgresql_ops={"meta": "jsonb_path_ops"},
    # A list of pending entries would be read through by each search.
    postgresql_with={"fastupdate": "off"},
)
POSTGRES_INDEXES = frozenset({"ix_threads_meta"})
"""Indexes that SQLite has no kind for."""


class State(Base):
    """One snapshot of a thread; refers to its messages by number and holds none."""

    __tablename__ = "states"
    __table_args__ = (Index("uq_states_version", "thread_id", "version", unique=True),)

    state_id: Mapped[int] = mapped_column(_Serial, primary_key=True, autoincrement=True)
    thread_id: Mapped[str] = mapped_column(
        Text, ForeignKey("threads.thread_id", ondelete="CASCADE")
    )
    version: Mapped[int] = mapped_column(BigInteger)
    state_data: Mapped[str] = mapped_column(JsonText)
    base_seq: Mapped[int] = mapped_column(BigInteger)
    """What negative references in `state_data` count from: -1 is the message after it."""
    meta: Mapped[str] = mapped_column(JsonText)
    write_id: Mapped[UUID] = mapped_column(Uuid)
    """Made by the writer, so that it can find out whether a lost answer meant success."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Message(Base):
    """One revision of one message. A revision that was replaced stays for old snapshots."""

    __tablename__ = "messages"

    thread_id: Mapped[str] = mapped_column(
        Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    message_id: Mapped[str] = mapped_column(EscapedText)
    role: Mapped[str] = mapped_column(Text)
    tool_call_id: Mapped[str | None] = mapped_column(EscapedText)
    data: Mapped[str] = mapped_column(JsonText)
    replaced_by: Mapped[int | None] = mapped_column(BigInteger)
    position: Mapped[int] = mapped_column(BigInteger)
    """The number of the first revision: an edited message keeps its place."""
    total_tokens: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


_live = Message.replaced_by.is_(None)
Index(
    "uq_messages_live",
    Message.thread_id,
    Message.message_id,
    unique=True,
    postgresql_where=_live,
    sqlite_where=_live,
)
Index(
    "ix_messages_position",
    Message.thread_id,
    Message.position,
    postgresql_where=_live,
    sqlite_where=_live,
)


class ToolExecution(Base):
    """One tool call and what became of it, by the message that asked and its place there."""

    __tablename__ = "tool_executions"

    thread_id: Mapped[str] = mapped_column(
        Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True
    )
    message_id: Mapped[str] = mapped_column(EscapedText, primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    tool_call_id: Mapped[str | None] = mapped_column(EscapedText)
    tool_name: Mapped[str] = mapped_column(EscapedText)
    args_digest: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text)
    result: Mapped[str | None] = mapped_column(JsonText)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Tables:
    """The tables as they are called in one PostgreSQL schema."""

    def __init__(self, schema: str | None) -> None:
        metadata = MetaData(schema=schema)
        for table in Base.metadata.sorted_tables:
            table.to_metadata(metadata)
        prefix = "" if schema is None else f"{schema}."
        self.threads: Table = metadata.tables[f"{prefix}threads"]
        self.states: Table = metadata.tables[f"{prefix}states"]
        self.messages: Table = metadata.tables[f"{prefix}messages"]
        self.tool_executions: Table = metadata.tables[f"{prefix}tool_executions"]


@lru_cache(maxsize=64)
def tables(schema: str | None = None) -> Tables:
    """The tables in a schema; without one, wherever the connection looks first."""
    return Tables(schema)
