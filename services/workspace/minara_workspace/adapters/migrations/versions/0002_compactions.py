"""Compactions of a session's history; sessions whose frozen blocks were forgotten."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import UtcTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "session_compactions",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("through_turn_number", sa.Integer, nullable=False),
        sa.Column("history", sa.LargeBinary, nullable=False),
        sa.Column("update_time", UtcTime, nullable=False),
    )
    op.create_table(
        "session_refreshes",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("time", UtcTime, nullable=False),
    )
