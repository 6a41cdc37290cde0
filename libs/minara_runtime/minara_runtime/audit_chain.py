"""How a row of the audit chain is hashed; pure, and the same for writer and verifier."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime

from minara_runtime.columns import utc_text

SCHEMA_VERSION = 1
GENESIS = "0" * 64
"""The previous hash of a user's first record."""

_FIELDS = (
    "schema_version", "user_id", "sequence", "kind", "time", "turn_id", "session_id", "trace_id",
    "origin", "subject", "outcome", "reason", "payload_hash", "previous_hash",
)  # fmt: skip


def record_hash(row: Mapping[str, object]) -> str:
    """SHA-256 over the row's fields in fixed order, each as UTF-8 with its length in front.

    The length makes the boundaries part of the hash: no text can move from one field to the next.
    """
    values = (row[name] for name in _FIELDS)
    return _hash(utc_text(v) if isinstance(v, datetime) else str(v) for v in values)


def payload_hash(salt: str, payload_json: str) -> str:
    """The salted hash that stands for a payload in its record; "" stands for none."""
    return _hash((salt, payload_json))


def _hash(texts: Iterable[str]) -> str:
    parts: list[bytes] = []
    for text in texts:
        part = text.encode()
        parts += (len(part).to_bytes(8, "big"), part)
    return hashlib.sha256(b"".join(parts)).hexdigest()
