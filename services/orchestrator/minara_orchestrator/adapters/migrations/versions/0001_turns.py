"""Turns, their events, and the leases of sessions."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.migrations import create_lease_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_lease_tables(op)
    op.create_table(
        "turns",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("turn_id", sa.Text, nullable=False, unique=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("is_over", sa.Boolean, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("allowed_tool_sets", sa.Text, nullable=False),
        sa.Column("locale", sa.Text, nullable=False),
        sa.Column("turn_grant", sa.Text, nullable=False),
        sa.Column("input_kind", sa.Text, nullable=False),
        sa.Column("input_text", sa.Text, nullable=False),
        sa.Column("file_keys", sa.Text, nullable=False),
        sa.Column(
            "start_time",
            sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql"),
            nullable=False,
        ),
    )
    op.create_index("turns_by_session", "turns", ["session_id", "position"])
    op.create_index("turns_unfinished", "turns", ["is_over", "position"])
    op.create_table(
        "turn_events",
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("is_terminal", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
