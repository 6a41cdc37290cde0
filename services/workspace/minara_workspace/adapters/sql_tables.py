"""The workspace's tables: sessions, their frozen blocks, their turns and compactions."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime, money_column

_TABLES = sa.MetaData()

SESSIONS = sa.Table(
    "sessions",
    _TABLES,
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("update_time", UtcTime, nullable=False),
    sa.Column("turn_count", sa.Integer, nullable=False),
    sa.Column("latest_turn_id", sa.Text, nullable=False),
    sa.Column("latest_finish_reason", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("sent_blocks", sa.Text, nullable=False),
    sa.Index("sessions_by_user", "user_id", "update_time", "session_id"),
)
SESSION_BLOCKS = sa.Table(
    "session_blocks",
    _TABLES,
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("memory", sa.Text, nullable=False),
)
TURNS = sa.Table(
    "turns",
    _TABLES,
    sa.Column("turn_id", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("turn_number", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("transcript", sa.LargeBinary, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    sa.Column("cache_read_tokens", sa.Integer, nullable=False),
    sa.Column("cache_write_tokens", sa.Integer, nullable=False),
    money_column("cost_usd", nullable=True),
    sa.Column("finish_reason", sa.Text, nullable=False),
    sa.Column("failure_reason", sa.Text, nullable=False),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("step_count", sa.Integer, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("start_time", UtcTime, nullable=False),
    sa.Column("commit_time", UtcTime, nullable=False),
    sa.UniqueConstraint("session_id", "turn_number", name="turns_by_session"),
)
# What stands for a session's first turns; the turns themselves stay.
COMPACTIONS = sa.Table(
    "session_compactions",
    _TABLES,
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("through_turn_number", sa.Integer, nullable=False),
    sa.Column("history", sa.LargeBinary, nullable=False),
    sa.Column("update_time", UtcTime, nullable=False),
)
# Sessions whose pages are to be read again, until what was read since is frozen.
REFRESHES = sa.Table(
    "session_refreshes",
    _TABLES,
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("time", UtcTime, nullable=False),
)
# One row per turn that told a decision or left something to decide; lists are JSON.
DECISIONS = sa.Table(
    "decisions",
    _TABLES,
    sa.Column("turn_id", sa.Text, primary_key=True),
    sa.Column(
        "session_id",
        sa.Text,
        sa.ForeignKey("sessions.session_id", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("decided_action_id", sa.Text, nullable=False),
    sa.Column("parked_action_ids", sa.Text, nullable=False),
    sa.Column("tool_names", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("time", UtcTime, nullable=False),
    sa.Index("decisions_by_user", "user_id", "time"),
    sa.Index("decisions_by_session", "session_id"),
)
META = sa.Table(
    "workspace_meta",
    _TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
