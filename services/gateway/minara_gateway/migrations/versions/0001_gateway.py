"""Tokens, shown previews, idempotency keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    time = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
    op.create_table(
        "tokens",
        sa.Column("token_hash", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("is_interactive", sa.Boolean, nullable=False),
        sa.Column("create_time", time, nullable=False),
    )
    op.create_table(
        "shown_actions",
        sa.Column("pending_action_id", sa.Text, primary_key=True),
        sa.Column("action_hash", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("is_last_word", sa.Boolean, nullable=False),
        sa.Column("show_time", time, nullable=False),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("body_hash", sa.Text, nullable=False),
        sa.Column("create_time", time, nullable=False),
    )
