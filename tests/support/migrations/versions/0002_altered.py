"""A column added later: on SQLite Alembic rebuilds the table for it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("counters") as table:
        table.add_column(sa.Column("note", sa.Text, nullable=False, server_default=""))
