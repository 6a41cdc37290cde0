"""What a running turn leaves for whoever takes it over, and what is asked of it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    time = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
    text = {"nullable": False, "server_default": ""}
    op.add_column("turns", sa.Column("interjected_into", sa.Text, **text))
    op.add_column("turns", sa.Column("stop", sa.Text, **text))
    for name in ("is_closing", "has_lost_events"):
        column = sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column("turns", column)
    for name in ("interjection_count", "take_overs"):
        column = sa.Column(name, sa.Integer, nullable=False, server_default="0")
        op.add_column("turns", column)
    op.add_column("turns", sa.Column("end_time", time))
    op.execute("UPDATE turns SET end_time = start_time WHERE is_over")
    op.create_index("turns_by_target", "turns", ["interjected_into"])
    op.create_index("turns_by_end", "turns", ["has_lost_events", "end_time"])
    op.create_table(
        "turn_checkpoints",
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
