"""Accounts, balances and orders of the paper venue."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_MONEY = sa.Text().with_variant(sa.Numeric(38, 18), "postgresql")
_TIME = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def money(name: str) -> sa.Column[Any]:
    return sa.Column(name, _MONEY, sa.CheckConstraint(f"{name} <> 'NaN'"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "paper_accounts",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False, unique=True),
        sa.Column("open_time", _TIME, nullable=False),
    )
    op.create_table(
        "paper_balances",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("asset", sa.Text, primary_key=True),
        money("available"),
        money("held"),
    )
    op.create_table(
        "paper_orders",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("client_order_id", sa.Text, primary_key=True),
        sa.Column("venue_order_id", sa.Text, nullable=False, unique=True),
        sa.Column("order_json", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        money("filled_quantity"),
        money("average_price"),
        money("spent"),
        sa.Column("spent_asset", sa.Text, nullable=False),
        money("received"),
        sa.Column("received_asset", sa.Text, nullable=False),
        money("fee"),
        sa.Column("fee_asset", sa.Text, nullable=False),
        sa.Column("place_time", _TIME, nullable=False),
    )
