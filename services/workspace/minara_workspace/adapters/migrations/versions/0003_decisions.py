"""What was decided, turn by turn."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import UtcTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "decisions",
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column(
            "session_id",
            sa.Text,
            sa.ForeignKey("sessions.session_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("decided_action_id", sa.Text, nullable=False),
        sa.Column("parked_action_ids", sa.Text, nullable=False),
        sa.Column("tool_names", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("time", UtcTime, nullable=False),
    )
    op.create_index("decisions_by_user", "decisions", ["user_id", "time"])
    op.create_index("decisions_by_session", "decisions", ["session_id"])
