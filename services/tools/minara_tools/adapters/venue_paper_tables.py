"""The paper venue's tables. Balances of one asset over all accounts sum to zero, and an account's
balance of an asset is the sum of its facts."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime, money_column

PAPER_TABLES = sa.MetaData()

ACCOUNTS = sa.Table(
    "paper_accounts",
    PAPER_TABLES,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("fact_count", sa.BigInteger, nullable=False),
    sa.Column("open_time", UtcTime, nullable=False),
    sa.UniqueConstraint("user_id", "purpose"),
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
    sa.Column("kind", sa.Text, nullable=False),
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
    money_column("exact_turnover"),
    money_column("exact_fee"),
    money_column("held"),
    sa.Column("book_met", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("end_time", UtcTime, nullable=True),
    sa.Index("paper_orders_by_state", "account", "state"),
)

FACTS = sa.Table(
    "paper_facts",
    PAPER_TABLES,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("instrument", sa.Text, nullable=False),
    sa.Column("trade_id", sa.Text, nullable=False),
    sa.Column("venue_order_id", sa.Text, nullable=False),
    sa.Column("client_order_id", sa.Text, nullable=False),
    sa.Column("changes_json", sa.Text, nullable=False),
    money_column("quantity"),
    money_column("price"),
    sa.Column("counterparty", sa.Text, nullable=False),
    sa.Column("fact_time", UtcTime, nullable=False),
    sa.UniqueConstraint("account", "instrument", "trade_id", "venue_order_id", "kind"),
    sa.Index("paper_facts_by_time", "account", "fact_time"),
    sa.Index("paper_facts_by_order", "account", "client_order_id"),
)

PRICES = sa.Table(
    "paper_prices",
    PAPER_TABLES,
    sa.Column("symbol", sa.Text, primary_key=True),
    money_column("price"),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("price_time", UtcTime, nullable=False),
)
