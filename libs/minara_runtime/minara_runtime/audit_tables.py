"""The tables of the audit chain: records stay, payloads can be erased, each user has one head.

Signed checkpoints say how far each chain had come, and whether the file outside has had them, which
tells a crash from a cut; `audit_covered` is what the latest one of each user said, so that the next
one names only those that went on.
"""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime

AUDIT_TABLES = sa.MetaData()

AUDIT_RECORDS = sa.Table(
    "audit_records",
    AUDIT_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("time", UtcTime, nullable=False),
    sa.Column("turn_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("trace_id", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("payload_hash", sa.Text, nullable=False),
    sa.Column("previous_hash", sa.Text, nullable=False),
    sa.Column("record_hash", sa.Text, nullable=False),
    sa.Index("audit_records_by_turn", "turn_id"),
    sa.Index("audit_records_by_session", "session_id"),
)

# The salt goes with the payload: if it stayed, a short payload could be guessed from its hash.
AUDIT_PAYLOADS = sa.Table(
    "audit_payloads",
    AUDIT_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("salt", sa.Text, nullable=False),
    sa.Column("payload_json", sa.Text, nullable=False),
)

AUDIT_HEADS = sa.Table(
    "audit_heads",
    AUDIT_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("record_hash", sa.Text, nullable=False),
)

AUDIT_CHECKPOINTS = sa.Table(
    "audit_checkpoints",
    AUDIT_TABLES,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("key_id", sa.Text, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
    sa.Column("is_in_file", sa.Boolean, nullable=False),
)

AUDIT_COVERED = sa.Table(
    "audit_covered",
    AUDIT_TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("record_hash", sa.Text, nullable=False),
)
