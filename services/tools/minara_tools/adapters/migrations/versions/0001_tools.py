"""Turns, calls, pending actions, trading states; the audit chain and the leases."""

import sqlalchemy as sa
from alembic import op

from minara_runtime.migrations import create_audit_tables, create_lease_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    create_lease_tables(op)
    create_audit_tables(op)
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "turns",
        sa.Column("position", _POSITION, primary_key=True),
        sa.Column("turn_id", sa.Text, nullable=False, unique=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("opted_in", sa.Boolean, nullable=False),
        sa.Column("granted_sets", sa.Text, nullable=False),
        sa.Column("asked_sets", sa.Text, nullable=False),
        sa.Column("grant_ceiling", sa.Integer, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("decided_action_id", sa.Text, nullable=False),
        sa.Column("is_open", sa.Boolean, nullable=False),
        sa.Column("is_completed", sa.Boolean, nullable=False),
        sa.Column("open_time", _TIME, nullable=False),
    )
    op.create_index("turns_by_session", "turns", ["session_id", "position"])
    op.create_table(
        "tool_calls",
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column("tool_call_id", sa.Text, primary_key=True),
        sa.Column("tool_name", sa.Text, nullable=False),
        sa.Column("arguments_hash", sa.Text, nullable=False),
        sa.Column("is_finished", sa.Boolean, nullable=False),
        sa.Column("marks_turn", sa.Boolean, nullable=False),
        sa.Column("result_json", sa.Text, nullable=False),
        sa.Column("duration_ms", sa.Integer, nullable=False),
        sa.Column("start_time", _TIME, nullable=False),
    )
    op.create_table(
        "tool_results",
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column("tool_call_id", sa.Text, primary_key=True),
        sa.Column("data_json", sa.Text, nullable=False),
    )
    op.create_table(
        "pending_actions",
        sa.Column("position", _POSITION, primary_key=True),
        sa.Column("pending_action_id", sa.Text, nullable=False, unique=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("tool_call_id", sa.Text, nullable=False),
        sa.Column("tool_name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("order_json", sa.Text, nullable=False),
        sa.Column("preview_json", sa.Text, nullable=False),
        sa.Column("action_hash", sa.Text, nullable=False),
        sa.Column("solicited", sa.Boolean, nullable=False),
        sa.Column("possible_duplicate", sa.Boolean, nullable=False),
        sa.Column("outcome_json", sa.Text, nullable=False),
        sa.Column("told_turn_id", sa.Text, nullable=False),
        sa.Column("arguments_json", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("create_time", _TIME, nullable=False),
        sa.Column("expire_time", _TIME, nullable=False),
        sa.Column("update_time", _TIME, nullable=False),
        sa.UniqueConstraint("turn_id", "tool_call_id", name="pending_actions_one_per_call"),
    )
    op.create_index("pending_actions_by_user", "pending_actions", ["user_id", "position"])
    op.create_index("pending_actions_by_session", "pending_actions", ["session_id", "state"])
    op.create_index("pending_actions_by_state", "pending_actions", ["state", "expire_time"])
    op.create_index("pending_actions_by_time", "pending_actions", ["user_id", "update_time"])
    op.create_table(
        "tier_events",
        sa.Column("position", _POSITION, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("tool_call_id", sa.Text, nullable=False),
        sa.Column("tool_name", sa.Text, nullable=False),
        sa.Column("permission_tier", sa.Integer, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("pending_action_id", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("trace_id", sa.Text, nullable=False),
        sa.Column("time", _TIME, nullable=False),
    )
    op.create_index("tier_events_by_user", "tier_events", ["user_id", "position"])
    op.create_table(
        "trading_states",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("resumed_etag", sa.Text, nullable=False),
        sa.Column("update_time", _TIME, nullable=True),
    )
