"""Messages that were put into a running turn."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("turns", sa.Column("into_turn_id", sa.Text, nullable=False, server_default=""))
