"""Whatever is done to a chain, at whichever row: the verifier names it, on both dialects."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest
import sqlalchemy as sa

from minara_runtime.audit import append
from minara_runtime.audit_tables import AUDIT_RECORDS
from minara_runtime.audit_verifier import AuditFault, AuditFaultKind, Promised, verify
from minara_runtime.database import Database
from support import audit_damage as damage
from support.audit import a_record

USERS = ("ann", "bob", "eve")
LENGTH = 9
COVERED = (4, 7, LENGTH)
"""The sizes at which each chain got a checkpoint."""

Damage: TypeAlias = Callable[[sa.Connection, str, int], None]
Found: TypeAlias = dict[tuple[str, int], list[AuditFault]]


class RollBack(Exception):
    """Leaves a damaged database as it was before."""


async def after_each(database: Database, promised: Promised, harm: Damage, places: range) -> Found:
    """What is found after `harm` was done to one row; to each row in turn."""
    found: Found = {}
    for user in USERS:
        for sequence in places:

            def look(connection: sa.Connection, user: str = user, at: int = sequence) -> None:
                harm(connection, user, at)
                found[user, at] = verify(connection, promised)
                raise RollBack

            with pytest.raises(RollBack):
                await database.transaction(look)
    return found


async def chains(database: Database) -> Promised:
    """Three interwoven chains; what checkpoints said about them."""
    records = [a_record(number, user=user) for number in range(1, LENGTH + 1) for user in USERS]
    await database.transaction(lambda c: append(c, records))
    rows = await database.read(lambda c: c.execute(sa.select(AUDIT_RECORDS)).all())
    hashes: Mapping[tuple[str, int], str] = {
        (row.user_id, row.sequence): row.record_hash for row in rows
    }
    return {user: {size: frozenset({hashes[user, size]}) for size in COVERED} for user in USERS}


def named(kind: AuditFaultKind, places: range) -> Found:
    return {
        (user, at): [AuditFault(user_id=user, sequence=at, kind=kind)]
        for user in USERS
        for at in places
    }


ALL = range(1, LENGTH + 1)


@pytest.mark.parametrize(
    ("harm", "kind", "places"),
    [
        pytest.param(damage.change, AuditFaultKind.CHANGED, ALL, id="changed"),
        pytest.param(damage.change_payload, AuditFaultKind.CHANGED, ALL, id="payload"),
        pytest.param(damage.remove, AuditFaultKind.REMOVED, ALL, id="removed"),
        pytest.param(
            damage.swap_with_next, AuditFaultKind.REORDERED, range(1, LENGTH), id="reordered"
        ),
        pytest.param(damage.fork, AuditFaultKind.FORKED, range(2, LENGTH + 1), id="forked"),
        pytest.param(damage.cut_off, AuditFaultKind.TRUNCATED, ALL, id="cut off"),
        pytest.param(damage.erase, AuditFaultKind.ERASED, ALL, id="erased"),
    ],
)
async def test_damage_at_any_row_is_named(
    database: Database, harm: Damage, kind: AuditFaultKind, places: range
) -> None:
    promised = await chains(database)
    assert await after_each(database, promised, harm, places) == named(kind, places)


async def test_a_chain_written_anew_is_changed_behind_its_last_good_checkpoint(
    database: Database,
) -> None:
    promised = await chains(database)
    found = await after_each(database, promised, damage.write_anew, ALL)
    assert found == {
        (user, at): [
            AuditFault(
                user_id=user,
                sequence=max(size for size in (0, *COVERED) if size < at) + 1,
                kind=AuditFaultKind.CHANGED,
            )
        ]
        for user in USERS
        for at in ALL
    }


async def test_without_checkpoints_nobody_would_know(database: Database) -> None:
    await chains(database)
    for harm in (damage.write_anew, damage.cut_off):
        found = await after_each(database, {}, harm, ALL)
        assert set(map(len, found.values())) == {0}


async def test_two_checkpoints_that_disagree_leave_no_row_to_believe(database: Database) -> None:
    promised = await chains(database)
    two = {**promised, "bob": {7: promised["bob"][7] | {"f" * 64}}}
    faults = await database.read(lambda c: verify(c, two))
    assert faults == [AuditFault(user_id="bob", sequence=1, kind=AuditFaultKind.CHANGED)]
