"""AddressBook and MandateStore on both databases."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from minara_core.audit import AuditKind, AuditRecord
from minara_core.errors import InvalidRequest, NotFound
from minara_core.ids import UserId
from minara_runtime.database import Database
from minara_tools.adapters.sql_addresses import SqlAddresses, addresses_of, mark_used
from minara_tools.adapters.sql_mandates import SqlMandates
from minara_tools.app.limit_store import NewAddress
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.mandates import Mandate
from minara_tools.main import VERSIONS
from support.actions import NOW
from support.databases import Databases
from support.tools.funds import EVM_ADDRESS
from support.tools.mandates import A_MANDATE

ME, OTHER = UserId("local"), UserId("other")


@pytest.fixture
async def database(databases: Databases) -> Database:
    return await databases.open(VERSIONS)


@pytest.fixture
def book(database: Database) -> SqlAddresses:
    return SqlAddresses(database, now=lambda _: NOW)


@pytest.fixture
def mandates(database: Database) -> SqlMandates:
    return SqlMandates(database, now=lambda _: NOW)


def record(outcome: str, now: datetime = NOW) -> AuditRecord:
    return AuditRecord(
        user_id=ME, kind=AuditKind.STATE_CHANGE, time=now, subject="addresses", outcome=outcome
    )


def a_recipient(address_id: str = "one", address: str = EVM_ADDRESS, **changes: str) -> NewAddress:
    known = NewAddress(
        address_id=address_id, name="wallet", chain="ethereum", address=address, memo=""
    )
    return replace(known, **changes)


async def add(
    book: SqlAddresses, new: NewAddress | None = None, *, user_id: UserId = ME
) -> AddressEntry:
    return await book.add(user_id, new or a_recipient(), lambda _: None, lambda _: record("added"))


async def remove(book: SqlAddresses, address_id: str, *, user_id: UserId = ME) -> None:
    await book.remove(user_id, address_id, lambda now: record("removed", now))


async def audited(database: Database) -> list[str]:
    rows = await database.read(
        lambda c: c.execute(sa.text("SELECT outcome FROM audit_records ORDER BY sequence")).all()
    )
    return [row.outcome for row in rows]


async def test_an_entry_comes_back_as_it_was_entered(
    book: SqlAddresses, database: Database
) -> None:
    entry = await add(book)
    assert entry.create_time == NOW
    assert entry.usable_time == NOW + timedelta(hours=24)
    assert await book.page(ME) == (entry,)
    assert await database.read(lambda c: addresses_of(c, ME)) == (entry,)
    assert await audited(database) == ["added"]


@pytest.mark.parametrize("address", [EVM_ADDRESS, EVM_ADDRESS.lower()])
async def test_the_same_recipient_is_one_entry(
    book: SqlAddresses, database: Database, address: str
) -> None:
    first = await add(book)
    assert await add(book, a_recipient("two", address, name="again")) == first
    assert await audited(database) == ["added"]


async def test_another_memo_or_chain_is_another_recipient(book: SqlAddresses) -> None:
    for number, changes in enumerate(({}, {"memo": "7"}, {"chain": "base"})):
        await add(book, a_recipient(f"id-{number}", **changes))
    assert len(await book.page(ME)) == 3


async def test_what_the_check_refuses_is_not_stored(book: SqlAddresses) -> None:
    known = await add(book)
    seen: list[tuple[AddressEntry, ...]] = []

    def check(entries: tuple[AddressEntry, ...]) -> None:
        seen.append(entries)
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await book.add(ME, a_recipient("two", memo="7"), check, lambda _: record("added"))
    assert seen == [(known,)]
    assert await book.page(ME) == (known,)


async def test_a_removed_entry_is_gone_and_removing_it_again_succeeds(
    book: SqlAddresses, database: Database
) -> None:
    await add(book)
    await remove(book, "one")
    await remove(book, "one")
    assert await book.page(ME) == ()
    assert await audited(database) == ["added", "removed"]


async def test_an_entry_that_comes_back_waits_its_day_again(
    book: SqlAddresses, database: Database
) -> None:
    await add(book)
    await database.transaction(lambda c: mark(c))
    await remove(book, "one")
    again = await add(book, a_recipient("two"))
    assert (again.address_id, again.used) == ("two", False)


async def test_nobody_removes_what_is_anothers(book: SqlAddresses) -> None:
    await add(book)
    for address_id, user_id in (("one", OTHER), ("none", ME)):
        with pytest.raises(NotFound) as refused:
            await remove(book, address_id, user_id=user_id)
        assert refused.value.reason == "ADDRESS_NOT_FOUND"
    assert len(await book.page(ME)) == 1


def mark(connection: sa.Connection, *, address: str = EVM_ADDRESS, memo: str = "") -> bool:
    return mark_used(connection, ME, chain="ethereum", address=address, memo=memo, now=NOW)


async def test_a_recipient_is_used_once_something_arrived(
    book: SqlAddresses, database: Database
) -> None:
    await add(book)
    assert not await database.transaction(lambda c: mark(c, memo="7"))
    assert not (await book.page(ME))[0].used
    assert await database.transaction(lambda c: mark(c, address=EVM_ADDRESS.lower()))
    assert (await book.page(ME))[0].used


async def test_entries_stand_by_name_on_both_databases(book: SqlAddresses) -> None:
    for number, name in enumerate(("b", "A", "ä", "a")):
        await add(book, a_recipient(f"id-{number}", memo=str(number), name=name))
    assert [entry.name for entry in await book.page(ME)] == ["A", "a", "b", "ä"]


def revoked(mandate: Mandate, now: datetime) -> AuditRecord:
    return record(f"revoked {mandate.mandate_id}", now)


async def test_a_mandate_comes_back_as_it_was_confirmed(mandates: SqlMandates) -> None:
    await mandates.add(A_MANDATE, record("granted"))
    assert await mandates.find(ME, A_MANDATE.mandate_id) == A_MANDATE
    assert await mandates.find(OTHER, A_MANDATE.mandate_id) is None
    assert await mandates.in_force(ME, NOW) == (A_MANDATE,)
    assert await mandates.in_force(ME, A_MANDATE.end_time) == ()


async def test_the_same_mandate_twice_is_one(mandates: SqlMandates, database: Database) -> None:
    for _ in range(2):
        await mandates.add(A_MANDATE, record("granted"))
    assert await audited(database) == ["granted"]


async def test_a_revoked_mandate_is_in_force_no_more(
    mandates: SqlMandates, database: Database
) -> None:
    second = replace(A_MANDATE, mandate_id="mandate-2")
    for each in (A_MANDATE, second):
        await mandates.add(each, record("granted"))
    assert await mandates.revoke(ME, "by hand", revoked, mandate_id="mandate-1") == ("mandate-1",)
    assert await mandates.in_force(ME, NOW) == (second,)
    assert await mandates.revoke(ME, "halted", revoked) == ("mandate-2",)
    assert await mandates.revoke(ME, "halted", revoked) == ()
    found = await mandates.find(ME, "mandate-2")
    assert found is not None
    assert (found.revoke_time, found.revoke_reason) == (NOW, "halted")
    assert (await audited(database))[2:] == ["revoked mandate-1", "revoked mandate-2"]
