"""The orchestrator's tables: turns, their events, chosen models and goals."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime

ORCHESTRATOR_TABLES = sa.MetaData()

TURNS = sa.Table(
    "turns",
    ORCHESTRATOR_TABLES,
    sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("turn_id", sa.Text, nullable=False, unique=True),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("is_over", sa.Boolean, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("allowed_tool_sets", sa.Text, nullable=False),
    sa.Column("locale", sa.Text, nullable=False),
    sa.Column("turn_grant", sa.Text, nullable=False),
    sa.Column("input_kind", sa.Text, nullable=False),
    sa.Column("input_text", sa.Text, nullable=False),
    sa.Column("file_keys", sa.Text, nullable=False),
    sa.Column("start_time", UtcTime, nullable=False),
    sa.Column("interjected_into", sa.Text, nullable=False, server_default=""),
    sa.Column("stop", sa.Text, nullable=False, server_default=""),
    sa.Column("is_closing", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("has_lost_events", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("interjection_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("take_overs", sa.Integer, nullable=False, server_default="0"),
    sa.Column("end_time", UtcTime),
    sa.Index("turns_by_target", "interjected_into"),
    sa.Index("turns_by_end", "has_lost_events", "end_time"),
    sa.Index("turns_by_session", "session_id", "position"),
    sa.Index("turns_unfinished", "is_over", "position"),
)

TURN_EVENTS = sa.Table(
    "turn_events",
    ORCHESTRATOR_TABLES,
    sa.Column("turn_id", sa.Text, primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("is_terminal", sa.Boolean, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
TURN_CHECKPOINTS = sa.Table(
    "turn_checkpoints",
    ORCHESTRATOR_TABLES,
    sa.Column("turn_id", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
MODEL_PREFERENCES = sa.Table(
    "model_preferences",
    ORCHESTRATOR_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("choice", sa.Text, nullable=False),
)
GOALS = sa.Table(
    "goals",
    ORCHESTRATOR_TABLES,
    # A person may name any session: what they set there is theirs, and takes nobody's place.
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("turns_used", sa.Integer, nullable=False),
    sa.Column("max_turns", sa.Integer, nullable=False),
    sa.Column("subgoals", sa.Text, nullable=False),
    sa.Column("last_verdict", sa.Text, nullable=False),
    sa.Column("last_reason", sa.Text, nullable=False),
    sa.Column("paused_reason", sa.Text, nullable=False),
    sa.Column("last_turn_id", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("update_time", UtcTime, nullable=False),
)
