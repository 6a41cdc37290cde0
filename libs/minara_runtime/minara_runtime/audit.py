"""The append-only audit chain that each service keeps for itself, one chain per user.

Every record holds the hash of the one before, so that a changed, removed, reordered or forked row
is found by `audit_verifier.verify`. What this alone cannot find is a chain whose end was cut off
together with its head: that is what the checkpoints are for (`audit_checkpoints`).
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from minara_core.audit import AuditKind, AuditRecord
from minara_runtime import commit_notes
from minara_runtime.audit_chain import GENESIS, SCHEMA_VERSION, payload_hash, record_hash
from minara_runtime.audit_tables import AUDIT_HEADS, AUDIT_PAYLOADS, AUDIT_RECORDS
from minara_runtime.batching import GroupCommit
from minara_runtime.database import Database
from minara_runtime.redaction import redact
from minara_runtime.statements import insert_if_absent

_SALT_BYTES = 16
_MONEY = frozenset({AuditKind.FUND_MOVE, AuditKind.DECISION})

_HEAD = (
    sa.select(AUDIT_HEADS.c.sequence, AUDIT_HEADS.c.record_hash)
    .where(AUDIT_HEADS.c.user_id == sa.bindparam("of_user"))
    .with_for_update()
)
_ADVANCE = (
    sa.update(AUDIT_HEADS)
    .where(AUDIT_HEADS.c.user_id == sa.bindparam("of_user"))
    .values(sequence=sa.bindparam("last"), record_hash=sa.bindparam("head"))
)
_INSERT_RECORDS = sa.insert(AUDIT_RECORDS)
_INSERT_PAYLOADS = sa.insert(AUDIT_PAYLOADS)
_ERASE = sa.delete(AUDIT_PAYLOADS).where(AUDIT_PAYLOADS.c.user_id == sa.bindparam("of_user"))
_ERASE_SESSION = _ERASE.where(
    AUDIT_PAYLOADS.c.sequence.in_(
        sa.select(AUDIT_RECORDS.c.sequence).where(
            AUDIT_RECORDS.c.user_id == sa.bindparam("of_user"),
            AUDIT_RECORDS.c.session_id == sa.bindparam("of_session"),
        )
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsWritten:
    """What a transaction that appends leaves for the listeners of its database."""

    count: int
    is_money: bool


def append(connection: sa.Connection, records: Sequence[AuditRecord]) -> None:
    """Add records to their users' chains, in the given order, inside the caller's transaction.

    Locks the users' heads until it ends. Secrets in payloads are redacted before anything is hashed
    or stored.
    """
    if not records:
        return
    # Everybody locks in the same order.
    heads = {
        user: _locked_head(connection, user) for user in sorted({one.user_id for one in records})
    }
    rows: list[dict[str, object]] = []
    payloads: list[dict[str, object]] = []
    for record in records:
        last, head = heads[record.user_id]
        row = _row(record, sequence=last + 1, previous_hash=head)
        if record.payload_json:
            payloads.append(_payload(row, redact(record.payload_json)))
        row["record_hash"] = record_hash(row)
        heads[record.user_id] = last + 1, str(row["record_hash"])
        rows.append(row)
    connection.execute(_INSERT_RECORDS, rows)
    if payloads:
        connection.execute(_INSERT_PAYLOADS, payloads)
    connection.execute(
        _ADVANCE,
        [{"of_user": user, "last": last, "head": head} for user, (last, head) in heads.items()],
    )
    _leave_word(connection, records)


def erase_payloads(connection: sa.Connection, user_id: str, session_id: str | None = None) -> int:
    """Delete a user's payloads, or those of one session; how many. Their records stay."""
    if session_id is None:
        return connection.execute(_ERASE, {"of_user": user_id}).rowcount
    return connection.execute(
        _ERASE_SESSION, {"of_user": user_id, "of_session": session_id}
    ).rowcount


class AuditWriter:
    """Writes records outside of any transaction of the caller's, many in one commit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits: GroupCommit[AuditRecord] = GroupCommit(self._flush)

    async def write(self, record: AuditRecord) -> None:
        """Return when the record is durable. Raises Unavailable if it could not be stored."""
        await self._commits.put(record)

    async def aclose(self) -> None:
        """Write out what waits; later records are refused."""
        await self._commits.aclose()

    async def _flush(self, records: list[AuditRecord]) -> None:
        await self._database.transaction(lambda connection: append(connection, records))


def _leave_word(connection: sa.Connection, records: Sequence[AuditRecord]) -> None:
    before = commit_notes.left(connection)
    count, is_money = len(records), any(record.kind in _MONEY for record in records)
    if isinstance(before, RowsWritten):
        count, is_money = count + before.count, is_money or before.is_money
    commit_notes.leave(connection, RowsWritten(count=count, is_money=is_money))


def _locked_head(connection: sa.Connection, user_id: str) -> tuple[int, str]:
    of_user = {"of_user": user_id}
    head = connection.execute(_HEAD, of_user).first()
    if head is None:
        first = {"user_id": user_id, "sequence": 0, "record_hash": GENESIS}
        insert_if_absent(connection, AUDIT_HEADS, first)
        # Read it again: another replica may have made it and gone on since.
        head = connection.execute(_HEAD, of_user).one()
    return head.sequence, head.record_hash


def _row(record: AuditRecord, *, sequence: int, previous_hash: str) -> dict[str, object]:
    return {
        "user_id": record.user_id,
        "sequence": sequence,
        "schema_version": SCHEMA_VERSION,
        "kind": record.kind.value,
        "time": record.time,
        "turn_id": record.turn_id or "",
        "session_id": record.session_id or "",
        "trace_id": record.trace_id,
        "origin": record.origin,
        "subject": record.subject,
        "outcome": record.outcome,
        "reason": record.reason,
        "payload_hash": "",
        "previous_hash": previous_hash,
    }


def _payload(row: dict[str, object], payload_json: str) -> dict[str, object]:
    salt = secrets.token_hex(_SALT_BYTES)
    row["payload_hash"] = payload_hash(salt, payload_json)
    return {
        "user_id": row["user_id"],
        "sequence": row["sequence"],
        "salt": salt,
        "payload_json": payload_json,
    }
