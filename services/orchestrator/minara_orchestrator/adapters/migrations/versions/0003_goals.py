"""The standing goal of each session."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import UtcTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "goals",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("turns_used", sa.Integer, nullable=False),
        sa.Column("max_turns", sa.Integer, nullable=False),
        sa.Column("subgoals", sa.Text, nullable=False),
        sa.Column("last_verdict", sa.Text, nullable=False),
        sa.Column("last_reason", sa.Text, nullable=False),
        sa.Column("paused_reason", sa.Text, nullable=False),
        sa.Column("last_turn_id", sa.Text, nullable=False),
        sa.Column("create_time", UtcTime, nullable=False),
        sa.Column("update_time", UtcTime, nullable=False),
    )
