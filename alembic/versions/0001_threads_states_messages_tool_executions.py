"""Threads, their states, messages and tool executions."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Spelled out, since a revision is frozen and the package's own types are not.
searchable = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
moment = sa.DateTime(timezone=True)


def thread_id(*, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(
        "thread_id",
        sa.Text(),
        sa.ForeignKey("threads.thread_id", ondelete="CASCADE"),
        primary_key=primary_key,
        nullable=False,
    )


def upgrade() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.Text(), primary_key=True),
        sa.Column("user_id", sa.Text()),
        sa.Column("thread_name", sa.Text()),
        sa.Column("meta", searchable, nullable=False),
        sa.Column("generation", sa.Uuid(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("stop_requested", sa.Boolean(), nullable=False),
        sa.Column("lease_holder", sa.Text()),
        sa.Column("lease_until", moment),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
    )
    op.create_index(
        "ix_threads_owner", "threads", ["user_id", sa.text("updated_at DESC"), "thread_id"]
    )
    op.create_table(
        "states",
        sa.Column("state_id", serial, primary_key=True, autoincrement=True),
        thread_id(),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("state_data", sa.JSON(), nullable=False),
        sa.Column("base_seq", sa.BigInteger(), nullable=False),
        sa.Column("meta", sa.JSON(), nullable=False),
        sa.Column("write_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", moment, nullable=False),
    )
    op.create_index("uq_states_version", "states", ["thread_id", "version"], unique=True)
    op.create_table(
        "messages",
        thread_id(primary_key=True),
        sa.Column("seq", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tool_call_id", sa.Text()),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("replaced_by", sa.BigInteger()),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("total_tokens", sa.BigInteger()),
        sa.Column("created_at", moment, nullable=False),
    )
    live = sa.text("replaced_by IS NULL")
    op.create_index(
        "uq_messages_live",
        "messages",
        ["thread_id", "message_id"],
        unique=True,
        postgresql_where=live,
        sqlite_where=live,
    )
    op.create_index(
        "ix_messages_position",
        "messages",
        ["thread_id", "position"],
        postgresql_where=live,
        sqlite_where=live,
    )
    op.create_table(
        "tool_executions",
        thread_id(primary_key=True),
        sa.Column("message_id", sa.Text(), primary_key=True),
        sa.Column("position", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("tool_call_id", sa.Text()),
        sa.Column("tool_name", sa.Text(), nullable=False),
        sa.Column("args_digest", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("result", sa.JSON()),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("tool_executions")
    op.drop_table("messages")
    op.drop_table("states")
    op.drop_table("threads")
