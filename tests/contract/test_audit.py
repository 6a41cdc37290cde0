"""The audit chain: what is appended stays provable, on both dialects."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from minara_core.audit import AuditKind, AuditRecord
from minara_core.ids import SessionId, TurnId, UserId
from minara_runtime.audit import AuditWriter, append, erase_payloads
from minara_runtime.audit_chain import record_hash
from minara_runtime.audit_tables import AUDIT_HEADS, AUDIT_PAYLOADS, AUDIT_RECORDS
from minara_runtime.audit_verifier import AuditFault, AuditFaultKind, verify
from minara_runtime.database import Database
from support.databases import RUNTIME_TABLES, Databases

TIME = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ANNS_HEAD = AUDIT_HEADS.c.user_id == "ann"
Tampering = Callable[[sa.Connection], None]


def a_record(number: int = 1, *, user: str = "ann", session: str = "s1") -> AuditRecord:
    return AuditRecord(
        user_id=UserId(user),
        kind=AuditKind.TOOL_CALL,
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


@pytest.mark.parametrize(
    ("tamper", "sequence", "kind"),
    [
        pytest.param(set_in_record(3, outcome="denial"), 3, AuditFaultKind.CHANGED, id="changed"),
        pytest.param(set_in_record(3, record_hash="0" * 64), 3, AuditFaultKind.CHANGED, id="hash"),
        pytest.param(rewritten(3, outcome="denial"), 3, AuditFaultKind.CHANGED, id="rewritten"),
        pytest.param(
            rewritten(5, outcome="denial"), 5, AuditFaultKind.CHANGED, id="last rewritten"
        ),
        pytest.param(changed_payload, 4, AuditFaultKind.CHANGED, id="payload"),
        pytest.param(added_payload, 4, AuditFaultKind.CHANGED, id="payload added"),
        pytest.param(moved_head, 5, AuditFaultKind.CHANGED, id="head"),
        pytest.param(removed(3), 3, AuditFaultKind.REMOVED, id="removed"),
        pytest.param(removed(1), 1, AuditFaultKind.REMOVED, id="first removed"),
        pytest.param(removed(4, 5), 4, AuditFaultKind.REMOVED, id="end removed"),
        pytest.param(removed(1, 2, 3, 4, 5), 1, AuditFaultKind.REMOVED, id="all removed"),
        pytest.param(no_head, 5, AuditFaultKind.REMOVED, id="head removed"),
        pytest.param(removed_and_closed_up, 3, AuditFaultKind.REORDERED, id="closed up"),
        pytest.param(swapped, 2, AuditFaultKind.REORDERED, id="swapped"),
        pytest.param(forked, 5, AuditFaultKind.FORKED, id="forked"),
    ],
)
async def test_tampering_is_named_with_its_first_row(
    database: Database, tamper: Tampering, sequence: int, kind: AuditFaultKind
) -> None:
    await with_five_records(database)
    await with_five_records(database, user="bob")
    await database.transaction(tamper)
    broken = [fault for fault in await database.read(verify) if fault.is_broken]
    assert broken == [AuditFault(user_id="ann", sequence=sequence, kind=kind)]


async def test_an_untouched_chain_has_no_fault(database: Database) -> None:
    await with_five_records(database)
    await with_five_records(database)
    assert await database.read(verify) == []


async def test_erased_payloads_are_reported_but_not_broken(database: Database) -> None:
    records = [a_record(1), a_record(2, session="s2"), a_record(3, session="s2")]
    await database.transaction(lambda c: append(c, records))
    assert await database.transaction(lambda c: erase_payloads(c, "ann", "s2")) == 2
    faults = await database.read(verify)
    assert faults == [AuditFault(user_id="ann", sequence=2, kind=AuditFaultKind.ERASED, count=2)]
    assert not faults[0].is_broken
    assert await database.transaction(lambda c: erase_payloads(c, "ann")) == 1


async def test_two_hundred_concurrent_appends_keep_one_chain_per_user(
    databases: Databases,
) -> None:
    url = await databases.url(RUNTIME_TABLES)
    opened = [databases.reopen(url), databases.reopen(url)]

    async def append_one(number: int) -> None:
        record = a_record(number, user=f"user-{number % 3}")
        await opened[number % 2].transaction(lambda c: append(c, [record]))

    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(append_one(number))
    assert await opened[0].read(verify) == []
    assert await opened[0].read(heads) == {"user-0": 67, "user-1": 67, "user-2": 66}


async def test_two_writers_with_many_records_keep_one_chain(databases: Databases) -> None:
    url = await databases.url(RUNTIME_TABLES)
    writers = [AuditWriter(databases.reopen(url)) for _ in range(2)]
    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(writers[number % 2].write(a_record(number)))
    for writer in writers:
        await writer.aclose()
    checked = databases.reopen(url)
    assert await checked.read(verify) == []
    assert await checked.read(heads) == {"ann": 200}


async def test_a_rolled_back_transaction_leaves_no_record(database: Database) -> None:
    def fail(connection: sa.Connection) -> None:
        append(connection, [a_record()])
        raise KeyError("money did not move")

    with pytest.raises(KeyError):
        await database.transaction(fail)
    assert await database.read(heads) == {}
    await with_five_records(database)
    assert await database.read(verify) == []


async def test_records_keep_their_order_within_an_append(database: Database) -> None:
    records = [a_record(1), a_record(2, user="bob"), a_record(3)]
    await database.transaction(lambda c: append(c, records))

    def subjects(connection: sa.Connection) -> list[tuple[str, int, str]]:
        columns = AUDIT_RECORDS.c
        rows = connection.execute(
            sa.select(columns.user_id, columns.sequence, columns.subject).order_by(
                columns.user_id, columns.sequence
            )
        )
        return [(row[0], row[1], row[2]) for row in rows]

    assert await database.read(subjects) == [
        ("ann", 1, "tool-1"),
        ("ann", 2, "tool-3"),
        ("bob", 1, "tool-2"),
    ]


async def test_secrets_never_reach_the_table(database: Database) -> None:
    record = AuditRecord(
        user_id=UserId("ann"),
        kind=AuditKind.LOG_IN,
        time=TIME,
        subject="venue",
        outcome="success",
        payload_json='{"api_key":"abc","amount":1.10}',
    )
    await database.transaction(lambda c: append(c, [record]))
    stored = await database.read(
        lambda c: c.execute(sa.select(AUDIT_PAYLOADS.c.payload_json)).scalar()
    )
    assert stored == '{"api_key":"[redacted]","amount":1.10}'
    assert await database.read(verify) == []


def heads(connection: sa.Connection) -> dict[str, int]:
    rows = connection.execute(sa.select(AUDIT_HEADS.c.user_id, AUDIT_HEADS.c.sequence))
    return {row[0]: row[1] for row in rows}
