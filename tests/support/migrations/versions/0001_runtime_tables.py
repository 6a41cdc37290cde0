"""The shared tables, and two tables for the database's own suite."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import UtcTime, money_column
from minara_runtime.migrations import create_audit_tables, create_lease_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_lease_tables(op)
    create_audit_tables(op)
    op.create_table(
        "counters",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("name", sa.Text, primary_key=True),
        money_column("amount", nullable=True),
        sa.Column("time", UtcTime, nullable=True),
        sa.Column("counter", sa.Text, sa.ForeignKey("counters.name"), nullable=True),
    )
