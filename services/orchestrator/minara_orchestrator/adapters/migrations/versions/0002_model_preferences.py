"""Which model each person chose."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "model_preferences",
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("choice", sa.Text, nullable=False),
    )
