"""Sessions, frozen blocks, turns; the audit chain and the leases."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import UtcTime, money_column
from minara_runtime.migrations import create_audit_tables, create_lease_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_lease_tables(op)
    create_audit_tables(op)
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("create_time", UtcTime, nullable=False),
        sa.Column("update_time", UtcTime, nullable=False),
        sa.Column("turn_count", sa.Integer, nullable=False),
        sa.Column("latest_turn_id", sa.Text, nullable=False),
        sa.Column("latest_finish_reason", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("sent_blocks", sa.Text, nullable=False),
    )
    op.create_index("sessions_by_user", "sessions", ["user_id", "update_time", "session_id"])
    op.create_table(
        "session_blocks",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("memory", sa.Text, nullable=False),
    )
    op.create_table(
        "turns",
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("turn_number", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("transcript", sa.LargeBinary, nullable=False),
        sa.Column("input_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("cache_read_tokens", sa.Integer, nullable=False),
        sa.Column("cache_write_tokens", sa.Integer, nullable=False),
        money_column("cost_usd", nullable=True),
        sa.Column("finish_reason", sa.Text, nullable=False),
        sa.Column("failure_reason", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("step_count", sa.Integer, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("start_time", UtcTime, nullable=False),
        sa.Column("commit_time", UtcTime, nullable=False),
        sa.UniqueConstraint("session_id", "turn_number", name="turns_by_session"),
    )
    op.create_table(
        "workspace_meta",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
