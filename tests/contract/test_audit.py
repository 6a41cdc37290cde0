"""The audit chain: what is appended stays provable, on both dialects."""

import asyncio

import pytest
import sqlalchemy as sa

from minara_core.audit import AuditKind, AuditRecord
from minara_core.ids import UserId
from minara_runtime.audit import AuditWriter, append, erase_payloads
from minara_runtime.audit_tables import AUDIT_PAYLOADS, AUDIT_RECORDS
from minara_runtime.audit_verifier import AuditFault, AuditFaultKind, verify
from minara_runtime.database import Database
from support.audit import (
    TIME,
    Tampering,
    a_record,
    added_payload,
    changed_payload,
    forked,
    heads,
    moved_head,
    no_head,
    removed,
    removed_and_closed_up,
    rewritten,
    set_in_record,
    swapped,
    with_five_records,
)
from support.databases import RUNTIME_TABLES, Databases


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
