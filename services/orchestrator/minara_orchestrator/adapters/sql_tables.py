"""The orchestrator's tables: turns and their events."""

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
MODEL_PREFERENCES = sa.Table(
    "model_preferences",
    ORCHESTRATOR_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("choice", sa.Text, nullable=False),
)
