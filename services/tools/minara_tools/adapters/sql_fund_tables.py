"""The fund ledger's tables: locks, accounts, operations, postings, entries, balances."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime, money_column
from minara_tools.adapters.sql_tables import TOOLS_TABLES

_POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# The one row that every money transaction of a person locks first.
FUND_LOCKS = sa.Table(
    "fund_locks",
    TOOLS_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("update_time", UtcTime, nullable=True),
)

FUND_ACCOUNTS = sa.Table(
    "fund_accounts",
    TOOLS_TABLES,
    sa.Column("venue", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("open_time", UtcTime, nullable=False),
    sa.Column("facts_time", UtcTime, nullable=False),
    sa.Column("differences", sa.Text, nullable=False),
    sa.Column("reconcile_time", UtcTime, nullable=True),
    sa.Index("fund_accounts_by_user", "user_id"),
)

OPERATIONS = sa.Table(
    "operations",
    TOOLS_TABLES,
    sa.Column("position", _POSITION, primary_key=True),
    sa.Column("operation_id", sa.Text, nullable=False, unique=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("venue", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("client_order_id", sa.Text, nullable=False),
    sa.Column("order_json", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("order_end", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("is_exit", sa.Boolean, nullable=False),
    money_column("notional_usd"),
    sa.Column("hold_asset", sa.Text, nullable=False),
    money_column("hold_amount"),
    money_column("hold_left"),
    money_column("filled_quantity"),
    sa.Column("venue_order_id", sa.Text, nullable=False),
    sa.Column("sender", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("absent_polls", sa.Integer, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("update_time", UtcTime, nullable=False),
    sa.Column("sign_time", UtcTime, nullable=True),
    sa.Column("not_after", UtcTime, nullable=True),
    sa.Column("sent_time", UtcTime, nullable=True),
    sa.Column("last_poll_time", UtcTime, nullable=True),
    sa.UniqueConstraint("venue", "account", "client_order_id", name="operations_one_per_client_id"),
    sa.Index("operations_by_user", "user_id", "create_time"),
    sa.Index("operations_by_state", "state", "position"),
)

POSTINGS = sa.Table(
    "postings",
    TOOLS_TABLES,
    sa.Column("position", _POSITION, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("venue", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("instrument", sa.Text, nullable=False),
    sa.Column("trade_id", sa.Text, nullable=False),
    sa.Column("order_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("operation_id", sa.Text, nullable=False),
    sa.Column("client_order_id", sa.Text, nullable=False),
    money_column("quantity"),
    money_column("price"),
    sa.Column("time", UtcTime, nullable=False),
    sa.Column("book_time", UtcTime, nullable=False),
    sa.UniqueConstraint(
        "venue",
        "account",
        "instrument",
        "trade_id",
        "order_id",
        "kind",
        name="postings_one_per_fact",
    ),
    sa.Index("postings_by_operation", "operation_id"),
    sa.Index("postings_by_user", "user_id", "position"),
)

ENTRIES = sa.Table(
    "entries",
    TOOLS_TABLES,
    sa.Column("position", _POSITION, primary_key=True),
    sa.Column("posting", sa.BigInteger, nullable=False),
    sa.Column("venue", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("ledger_account", sa.Text, nullable=False),
    sa.Column("asset", sa.Text, nullable=False),
    money_column("amount"),
    sa.Index("entries_by_posting", "posting"),
)

# Running totals of the entries; `minara ledger check` compares them.
LEDGER_BALANCES = sa.Table(
    "ledger_balances",
    TOOLS_TABLES,
    sa.Column("venue", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("ledger_account", sa.Text, primary_key=True),
    sa.Column("asset", sa.Text, primary_key=True),
    money_column("amount"),
)

# Which database this is, and how many money transactions it has seen; compared with a file outside.
MONEY_COUNTERS = sa.Table(
    "money_counters",
    TOOLS_TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("database_id", sa.Text, nullable=False),
    sa.Column("counter", sa.BigInteger, nullable=False),
)
