"""The fund ledger: locks, accounts, operations, postings, entries, balances, the money counter."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.columns import money_column

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def _text(name: str, *, key: bool = False, unique: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, primary_key=key, unique=unique)


def _time(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _TIME, nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "fund_locks",
        _text("user_id", key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        _time("update_time", nullable=True),
    )
    op.create_table(
        "fund_accounts",
        _text("venue", key=True),
        _text("account", key=True),
        _text("user_id"),
        _time("open_time"),
        _time("facts_time"),
        _text("differences"),
        _time("reconcile_time", nullable=True),
    )
    op.create_index("fund_accounts_by_user", "fund_accounts", ["user_id"])
    _create_operations()
    _create_books()
    op.create_table(
        "money_counters",
        _text("name", key=True),
        _text("database_id"),
        sa.Column("counter", sa.BigInteger, nullable=False),
    )


def _create_operations() -> None:
    op.create_table(
        "operations",
        sa.Column("position", _POSITION, primary_key=True),
        _text("operation_id", unique=True),
        _text("user_id"),
        _text("venue"),
        _text("account"),
        _text("client_order_id"),
        _text("order_json"),
        _text("state"),
        _text("order_end"),
        _text("reason"),
        sa.Column("is_exit", sa.Boolean, nullable=False),
        money_column("notional_usd"),
        _text("hold_asset"),
        money_column("hold_amount"),
        money_column("hold_left"),
        money_column("filled_quantity"),
        _text("venue_order_id"),
        _text("sender"),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("absent_polls", sa.Integer, nullable=False),
        _time("create_time"),
        _time("update_time"),
        _time("sign_time", nullable=True),
        _time("not_after", nullable=True),
        _time("sent_time", nullable=True),
        _time("last_poll_time", nullable=True),
        sa.UniqueConstraint(
            "venue", "account", "client_order_id", name="operations_one_per_client_id"
        ),
    )
    op.create_index("operations_by_user", "operations", ["user_id", "create_time"])
    op.create_index("operations_by_state", "operations", ["state", "position"])


def _create_books() -> None:
    op.create_table(
        "postings",
        sa.Column("position", _POSITION, primary_key=True),
        _text("user_id"),
        _text("venue"),
        _text("account"),
        _text("instrument"),
        _text("trade_id"),
        _text("order_id"),
        _text("kind"),
        _text("operation_id"),
        _text("client_order_id"),
        money_column("quantity"),
        money_column("price"),
        _time("time"),
        _time("book_time"),
        sa.UniqueConstraint(
            "venue",
            "account",
            "instrument",
            "trade_id",
            "order_id",
            "kind",
            name="postings_one_per_fact",
        ),
    )
    op.create_index("postings_by_operation", "postings", ["operation_id"])
    op.create_index("postings_by_user", "postings", ["user_id", "position"])
    op.create_table(
        "entries",
        sa.Column("position", _POSITION, primary_key=True),
        sa.Column("posting", sa.BigInteger, nullable=False),
        _text("venue"),
        _text("account"),
        _text("ledger_account"),
        _text("asset"),
        money_column("amount"),
    )
    op.create_index("entries_by_posting", "entries", ["posting"])
    op.create_table(
        "ledger_balances",
        _text("venue", key=True),
        _text("account", key=True),
        _text("ledger_account", key=True),
        _text("asset", key=True),
        money_column("amount"),
    )
