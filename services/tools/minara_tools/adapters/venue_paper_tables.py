"""The paper venue's tables. Balances of one asset over all accounts sum to zero."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime, money_column

PAPER_TABLES = sa.MetaData()

ACCOUNTS = sa.Table(
    "paper_accounts",
    PAPER_TABLES,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False, unique=True),
    sa.Column("open_time", UtcTime, nullable=False),
)

BALANCES = sa.Table(
    "paper_balances",
    PAPER_TABLES,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("asset", sa.Text, primary_key=True),
    money_column("available"),
    money_column("held"),
)

ORDERS = sa.Table(
    "paper_orders",
    PAPER_TABLES,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("client_order_id", sa.Text, primary_key=True),
    sa.Column("venue_order_id", sa.Text, nullable=False, unique=True),
    sa.Column("order_json", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    money_column("filled_quantity"),
    money_column("average_price"),
    money_column("spent"),
    sa.Column("spent_asset", sa.Text, nullable=False),
    money_column("received"),
    sa.Column("received_asset", sa.Text, nullable=False),
    money_column("fee"),
    sa.Column("fee_asset", sa.Text, nullable=False),
    sa.Column("place_time", UtcTime, nullable=False),
)
