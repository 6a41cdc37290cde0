"""What a person allows: limits and their history, recipients, locked pairs, mandates."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime, money_column
from minara_tools.adapters.sql_tables import TOOLS_TABLES

_POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")

FUND_LIMITS = sa.Table(
    "fund_limits",
    TOOLS_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    money_column("max_move_usd"),
    money_column("max_day_usd"),
    sa.Column("max_day_moves", sa.Integer, nullable=False),
    money_column("max_new_recipient_usd"),
    money_column("max_leverage"),
    sa.Column("max_submits_a_minute", sa.Integer, nullable=False),
    sa.Column("is_chosen", sa.Boolean, nullable=False),
    sa.Column("update_time", UtcTime, nullable=True),
)

# Every change that was asked for; a raise is `pending` until its time has come.
LIMIT_CHANGES = sa.Table(
    "limit_changes",
    TOOLS_TABLES,
    sa.Column("position", _POSITION, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("limit_name", sa.Text, nullable=False),
    money_column("old_value"),
    money_column("new_value"),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("effective_time", UtcTime, nullable=False),
    sa.Index("limit_changes_by_user", "user_id", "state", "position"),
)

# `spelling` is one for equal addresses; a removed entry stays, so that removing it again succeeds.
ADDRESSES = sa.Table(
    "addresses",
    TOOLS_TABLES,
    sa.Column("address_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("chain", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("spelling", sa.Text, nullable=False),
    sa.Column("memo", sa.Text, nullable=False),
    sa.Column("is_used", sa.Boolean, nullable=False),
    sa.Column("is_removed", sa.Boolean, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("update_time", UtcTime, nullable=False),
    sa.Index(
        "addresses_one_per_recipient",
        "user_id",
        "chain",
        "spelling",
        "memo",
        unique=True,
        sqlite_where=sa.text("NOT is_removed"),
        postgresql_where=sa.text("NOT is_removed"),
    ),
)

PAIR_LOCKS = sa.Table(
    "pair_locks",
    TOOLS_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("venue", sa.Text, primary_key=True),
    sa.Column("instrument", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("until_time", UtcTime, nullable=False),
)

MANDATES = sa.Table(
    "mandates",
    TOOLS_TABLES,
    sa.Column("mandate_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("strategy", sa.Text, nullable=False),
    sa.Column("definition_hash", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("instruments_json", sa.Text, nullable=False),
    sa.Column("sides_json", sa.Text, nullable=False),
    money_column("max_per_move"),
    money_column("max_per_day"),
    money_column("max_total"),
    money_column("max_loss"),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("end_time", UtcTime, nullable=False),
    sa.Column("revoke_time", UtcTime, nullable=True),
    sa.Column("revoke_reason", sa.Text, nullable=False),
    sa.Index("mandates_by_user", "user_id", "end_time"),
)
