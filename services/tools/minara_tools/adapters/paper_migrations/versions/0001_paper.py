"""Accounts, balances, orders, facts and last good prices of the paper venue."""

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
    _accounts()
    _orders()
    _facts()
    op.create_table(
        "paper_prices",
        sa.Column("symbol", sa.Text, primary_key=True),
        money("price"),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("price_time", _TIME, nullable=False),
    )


def _accounts() -> None:
    op.create_table(
        "paper_accounts",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("fact_count", sa.BigInteger, nullable=False),
        sa.Column("open_time", _TIME, nullable=False),
        sa.UniqueConstraint("user_id", "purpose"),
    )
    op.create_table(
        "paper_balances",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("asset", sa.Text, primary_key=True),
        money("available"),
        money("held"),
    )


def _orders() -> None:
    op.create_table(
        "paper_orders",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("client_order_id", sa.Text, primary_key=True),
        sa.Column("venue_order_id", sa.Text, nullable=False, unique=True),
        sa.Column("kind", sa.Text, nullable=False),
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
        money("exact_turnover"),
        money("exact_fee"),
        money("held"),
        sa.Column("book_met", sa.Text, nullable=False),
        sa.Column("create_time", _TIME, nullable=False),
        sa.Column("end_time", _TIME, nullable=True),
    )
    op.create_index("paper_orders_by_state", "paper_orders", ["account", "state"])


def _facts() -> None:
    op.create_table(
        "paper_facts",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("instrument", sa.Text, nullable=False),
        sa.Column("trade_id", sa.Text, nullable=False),
        sa.Column("venue_order_id", sa.Text, nullable=False),
        sa.Column("client_order_id", sa.Text, nullable=False),
        sa.Column("changes_json", sa.Text, nullable=False),
        money("quantity"),
        money("price"),
        sa.Column("counterparty", sa.Text, nullable=False),
        sa.Column("fact_time", _TIME, nullable=False),
        sa.UniqueConstraint("account", "instrument", "trade_id", "venue_order_id", "kind"),
    )
    op.create_index("paper_facts_by_time", "paper_facts", ["account", "fact_time"])
    op.create_index("paper_facts_by_order", "paper_facts", ["account", "client_order_id"])
