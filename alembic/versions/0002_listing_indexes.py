"""Indexes for listings: without isolation, and by metadata on PostgreSQL."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_index("ix_threads_recent", "threads", [sa.text("updated_at DESC"), "thread_id"])
    if op.get_context().dialect.name == "postgresql":
        op.create_index(
            "ix_threads_meta",
            "threads",
            ["meta"],
            postgresql_using="gin",
            postgresql_ops={"meta": "jsonb_path_ops"},
            postgresql_with={"fastupdate": "off"},
        )


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.drop_index("ix_threads_meta", "threads")
    op.drop_index("ix_threads_recent", "threads")
