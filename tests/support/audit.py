"""Audit chains to build and to tamper with, and a house that keeps checkpoints of them."""

from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa

from minara_core.audit import AuditKind, AuditRecord
from minara_core.ids import SessionId, TurnId, UserId
from minara_runtime.audit import append
from minara_runtime.audit_chain import record_hash
from minara_runtime.audit_tables import AUDIT_HEADS, AUDIT_PAYLOADS, AUDIT_RECORDS
from minara_runtime.database import Database

TIME = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ANNS_HEAD = AUDIT_HEADS.c.user_id == "ann"
Tampering = Callable[[sa.Connection], None]


def a_record(
    number: int = 1,
    *,
    user: str = "ann",
    session: str = "s1",
    kind: AuditKind = AuditKind.TOOL_CALL,
) -> AuditRecord:
    return AuditRecord(
        user_id=UserId(user),
        kind=kind,
        time=TIME,
        subject=f"tool-{number}",
        outcome="success",
        turn_id=TurnId("t1"),
        session_id=SessionId(session),
        origin="repl",
        payload_json=f'{{"number":{number}}}',
    )


async def with_five_records(database: Database, *, user: str = "ann") -> None:
    records = [a_record(number, user=user) for number in range(1, 6)]
    await database.transaction(lambda c: append(c, records))


def place(sequence: int) -> sa.ColumnElement[bool]:
    return sa.and_(AUDIT_RECORDS.c.user_id == "ann", AUDIT_RECORDS.c.sequence == sequence)


def set_in_record(at: int, /, **values: object) -> Tampering:
    def tamper(connection: sa.Connection) -> None:
        connection.execute(sa.update(AUDIT_RECORDS).where(place(at)).values(**values))

    return tamper


def rewritten(sequence: int, **values: object) -> Tampering:
    """Change a row and give it a fitting hash, as somebody would who knows the code."""

    def tamper(connection: sa.Connection) -> None:
        set_in_record(sequence, **values)(connection)
        row = connection.execute(sa.select(AUDIT_RECORDS).where(place(sequence))).mappings().one()
        fresh = record_hash({str(name): value for name, value in row.items()})
        set_in_record(sequence, record_hash=fresh)(connection)

    return tamper


def removed(*sequences: int) -> Tampering:
    def tamper(connection: sa.Connection) -> None:
        for sequence in sequences:
            connection.execute(sa.delete(AUDIT_RECORDS).where(place(sequence)))

    return tamper


def removed_and_closed_up(connection: sa.Connection) -> None:
    removed(3)(connection)
    set_in_record(4, sequence=3)(connection)
    set_in_record(5, sequence=4)(connection)
    connection.execute(sa.update(AUDIT_HEADS).where(ANNS_HEAD).values(sequence=4))


def swapped(connection: sa.Connection) -> None:
    set_in_record(2, sequence=99)(connection)
    set_in_record(3, sequence=2)(connection)
    set_in_record(99, sequence=3)(connection)


def forked(connection: sa.Connection) -> None:
    """Two writers both went on from record 3."""
    link = connection.execute(sa.select(AUDIT_RECORDS.c.record_hash).where(place(3))).scalar_one()
    rewritten(5, previous_hash=link)(connection)


def changed_payload(connection: sa.Connection) -> None:
    where = sa.and_(AUDIT_PAYLOADS.c.user_id == "ann", AUDIT_PAYLOADS.c.sequence == 4)
    connection.execute(sa.update(AUDIT_PAYLOADS).where(where).values(payload_json="{}"))


def added_payload(connection: sa.Connection) -> None:
    rewritten(4, payload_hash="")(connection)


def moved_head(connection: sa.Connection) -> None:
    connection.execute(sa.update(AUDIT_HEADS).where(ANNS_HEAD).values(record_hash="f" * 64))


def no_head(connection: sa.Connection) -> None:
    connection.execute(sa.delete(AUDIT_HEADS).where(ANNS_HEAD))


def heads(connection: sa.Connection) -> dict[str, int]:
    rows = connection.execute(sa.select(AUDIT_HEADS.c.user_id, AUDIT_HEADS.c.sequence))
    return {row[0]: row[1] for row in rows}
