"""What a person allows: limits and their history, recipients, locked pairs, mandates."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import money_column

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def _text(name: str, *, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, primary_key=key)


def _time(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _TIME, nullable=nullable)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


def upgrade() -> None:
    _create_limits()
    op.create_table(
        "addresses",
        _text("address_id", key=True),
        _text("user_id"),
        _text("name"),
        _text("chain"),
        _text("address"),
        _text("spelling"),
        _text("memo"),
        _flag("is_used"),
        _flag("is_removed"),
        _time("create_time"),
        _time("update_time"),
    )
    op.create_index(
        "addresses_one_per_recipient",
        "addresses",
        ["user_id", "chain", "spelling", "memo"],
        unique=True,
        sqlite_where=sa.text("NOT is_removed"),
        postgresql_where=sa.text("NOT is_removed"),
    )
    op.create_table(
        "pair_locks",
        _text("user_id", key=True),
        _text("venue", key=True),
        _text("instrument", key=True),
        _text("reason"),
        _time("until_time"),
    )
    _create_mandates()


def _create_limits() -> None:
    op.create_table(
        "fund_limits",
        _text("user_id", key=True),
        money_column("max_move_usd"),
        money_column("max_day_usd"),
        sa.Column("max_day_moves", sa.Integer, nullable=False),
        money_column("max_new_recipient_usd"),
        money_column("max_leverage"),
        sa.Column("max_submits_a_minute", sa.Integer, nullable=False),
        _flag("is_chosen"),
        _time("update_time", nullable=True),
    )
    op.create_table(
        "limit_changes",
        sa.Column("position", _POSITION, primary_key=True),
        _text("user_id"),
        _text("limit_name"),
        money_column("old_value"),
        money_column("new_value"),
        _text("state"),
        _time("create_time"),
        _time("effective_time"),
    )
    op.create_index("limit_changes_by_user", "limit_changes", ["user_id", "state", "position"])


def _create_mandates() -> None:
    op.create_table(
        "mandates",
        _text("mandate_id", key=True),
        _text("user_id"),
        _text("strategy"),
        _text("definition_hash"),
        _text("mode"),
        _text("account"),
        _text("instruments_json"),
        _text("sides_json"),
        money_column("max_per_move"),
        money_column("max_per_day"),
        money_column("max_total"),
        money_column("max_loss"),
        _time("create_time"),
        _time("end_time"),
        _time("revoke_time", nullable=True),
        _text("revoke_reason"),
    )
    op.create_index("mandates_by_user", "mandates", ["user_id", "end_time"])
