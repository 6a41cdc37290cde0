"""One routing row per turn."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "skill_sessions",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("assets", sa.Text, nullable=False),
        sa.Column("skill_ids", sa.Text, nullable=False),
        sa.Column("create_time", UtcTime, nullable=False),
        sa.UniqueConstraint("user_id", "turn_id", name="skill_sessions_by_turn"),
    )
    op.create_index(
        "skill_sessions_by_session", "skill_sessions", ["user_id", "session_id", "position"]
    )
