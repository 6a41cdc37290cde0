"""The tables of the tools service. Amounts stand as text inside the JSON of orders."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime

TOOLS_TABLES = sa.MetaData()

_POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")

SESSIONS = sa.Table(
    "sessions",
    TOOLS_TABLES,
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
)

TURNS = sa.Table(
    "turns",
    TOOLS_TABLES,
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
    sa.Column("into_turn_id", sa.Text, nullable=False, server_default=""),
    sa.Column("is_open", sa.Boolean, nullable=False),
    sa.Column("is_completed", sa.Boolean, nullable=False),
    sa.Column("open_time", UtcTime, nullable=False),
    sa.Index("turns_by_session", "session_id", "position"),
)

TOOL_CALLS = sa.Table(
    "tool_calls",
    TOOLS_TABLES,
    sa.Column("turn_id", sa.Text, primary_key=True),
    sa.Column("tool_call_id", sa.Text, primary_key=True),
    sa.Column("tool_name", sa.Text, nullable=False),
    sa.Column("arguments_hash", sa.Text, nullable=False),
    sa.Column("is_finished", sa.Boolean, nullable=False),
    sa.Column("marks_turn", sa.Boolean, nullable=False),
    sa.Column("result_json", sa.Text, nullable=False),
    sa.Column("duration_ms", sa.Integer, nullable=False),
    sa.Column("start_time", UtcTime, nullable=False),
)

# The whole of a result that was too long for the model.
TOOL_RESULTS = sa.Table(
    "tool_results",
    TOOLS_TABLES,
    sa.Column("turn_id", sa.Text, primary_key=True),
    sa.Column("tool_call_id", sa.Text, primary_key=True),
    sa.Column("data_json", sa.Text, nullable=False),
)

PENDING_ACTIONS = sa.Table(
    "pending_actions",
    TOOLS_TABLES,
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
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("expire_time", UtcTime, nullable=False),
    sa.Column("update_time", UtcTime, nullable=False),
    sa.UniqueConstraint("turn_id", "tool_call_id", name="pending_actions_one_per_call"),
    sa.Index("pending_actions_by_user", "user_id", "position"),
    sa.Index("pending_actions_by_session", "session_id", "state"),
    sa.Index("pending_actions_by_state", "state", "expire_time"),
    sa.Index("pending_actions_by_time", "user_id", "update_time"),
)

TIER_EVENTS = sa.Table(
    "tier_events",
    TOOLS_TABLES,
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
    sa.Column("time", UtcTime, nullable=False),
    sa.Index("tier_events_by_user", "user_id", "position"),
)

TRADING_STATES = sa.Table(
    "trading_states",
    TOOLS_TABLES,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("resumed_etag", sa.Text, nullable=False),
    sa.Column("update_time", UtcTime, nullable=True),
)
