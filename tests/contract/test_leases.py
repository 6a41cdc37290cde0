"""Leases: one holder per name, fenced, judged by the database's clock."""

import asyncio
import threading
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from minara_core.clock import pause
from minara_core.errors import Conflict, Unavailable
from minara_core.reasons import ErrorReason
from minara_runtime.database import Database
from minara_runtime.lease_table import LEASES
from minara_runtime.leases import Lease, Leases
from minara_runtime.statements import DatabaseClock
from support.databases import RUNTIME_TABLES, Databases
from support.eventually import eventually

LIFETIME = timedelta(seconds=10)
OFTEN = timedelta(milliseconds=10)


async def let_expire(database: Database, name: str) -> None:
    """Move the end of a lease into the past of the database's own clock."""
    await database.transaction(
        lambda c: c.execute(
            sa.update(LEASES).where(LEASES.c.name == name).values(expire_time=DatabaseClock())
        )
    )
    await pause(0.002)  # SQLite's clock has milliseconds, and "until now" is over only after now


async def taken(leases: Leases, name: str = "s") -> Lease:
    lease = await leases.acquire(name, LIFETIME)
    assert lease is not None
    return lease


async def test_one_owner_holds_a_name_and_others_wait(database: Database) -> None:
    one, two = Leases(database, owner="one"), Leases(database, owner="two")
    lease = await taken(one)
    assert (lease.owner, lease.epoch) == ("one", 1)
    assert await two.acquire("s", LIFETIME) is None
    assert (await taken(two, "other")).epoch == 1


async def test_of_owners_that_acquire_together_one_wins(databases: Databases) -> None:
    url = await databases.url(RUNTIME_TABLES)
    owners = [Leases(databases.reopen(url), owner=f"owner-{n}") for n in range(6)]
    for round_number in range(5):
        async with asyncio.TaskGroup() as group:
            tries = [
                group.create_task(leases.acquire(f"s{round_number}", LIFETIME)) for leases in owners
            ]
        assert len([one for one in tries if one.result() is not None]) == 1


async def test_the_epoch_grows_with_each_new_holder(database: Database) -> None:
    one, two = Leases(database, owner="one"), Leases(database, owner="two")
    first = await taken(one)
    assert (await taken(one)).epoch == first.epoch
    await one.release(first)
    second = await taken(two)
    assert second.epoch == 2
    await let_expire(database, "s")
    third = await taken(two)
    assert third.epoch == 3
    await let_expire(database, "s")
    assert (await taken(one)).epoch == 4


async def test_a_stale_holder_can_neither_renew_nor_write(database: Database) -> None:
    one, two = Leases(database, owner="one"), Leases(database, owner="two")
    stale = await taken(one)
    await let_expire(database, "s")
    current = await taken(two)
    with pytest.raises(Conflict) as refused:
        await one.renew(stale)
    assert refused.value.reason is ErrorReason.LEASE_LOST
    with pytest.raises(Conflict):
        await database.transaction(lambda c: one.check(c, stale))
    await one.release(stale)
    await database.transaction(lambda c: two.check(c, current))


async def test_an_expired_lease_is_lost_even_if_nobody_took_it(database: Database) -> None:
    leases = Leases(database, owner="one")
    lease = await taken(leases)
    await let_expire(database, "s")
    with pytest.raises(Conflict):
        await database.transaction(lambda c: leases.check(c, lease))
    with pytest.raises(Conflict):
        await leases.renew(lease)


async def test_renewing_moves_the_end(database: Database) -> None:
    leases = Leases(database, owner="one")
    lease = await taken(leases)
    await pause(0.005)
    renewed = await leases.renew(lease)
    assert renewed.epoch == lease.epoch
    assert renewed.expire_time > lease.expire_time
    assert (await leases.renew(replace(lease, lifetime=2 * LIFETIME))).expire_time >= (
        lease.expire_time + LIFETIME
    )


async def test_a_lease_ends_by_the_databases_clock(database: Database) -> None:
    one, two = Leases(database, owner="one"), Leases(database, owner="two")
    await one.acquire("s", timedelta(milliseconds=60))
    assert await two.acquire("s", LIFETIME) is None

    async def is_free() -> bool:
        return await two.acquire("s", LIFETIME) is not None

    await eventually(is_free, timeout=3)


async def test_a_fenced_write_holds_takers_off_until_it_commits(databases: Databases) -> None:
    url = await databases.url(RUNTIME_TABLES)
    database = databases.reopen(url)
    one = Leases(database, owner="one")
    lease = await taken(one)
    order: list[str] = []

    async def take() -> None:
        other = Database.open(url)
        await let_expire(other, "s")
        await taken(Leases(other, owner="two"))
        order.append("taken")
        await other.aclose()

    taker = threading.Thread(target=lambda: asyncio.run(take()))

    def write(connection: sa.Connection) -> None:
        one.check(connection, lease)
        taker.start()
        taker.join(0.2)  # time enough to take it, were it not held off
        order.append("written")

    await database.transaction(write)
    await asyncio.to_thread(taker.join)
    assert order == ["written", "taken"]


async def test_holding_renews_and_releases(database: Database) -> None:
    one, two = Leases(database, owner="one"), Leases(database, owner="two")
    async with one.hold("s", LIFETIME, OFTEN) as lease:

        async def is_renewed() -> bool:
            end = await database.read(lambda c: c.execute(sa.select(LEASES.c.expire_time)).scalar())
            return end is not None and end > lease.expire_time

        await eventually(is_renewed)
        assert await two.acquire("s", LIFETIME) is None
    assert (await taken(two)).epoch == 2


async def test_holding_what_another_holds_is_a_conflict(database: Database) -> None:
    await taken(Leases(database, owner="one"))
    with pytest.raises(Conflict):
        async with Leases(database, owner="two").hold("s", LIFETIME, OFTEN):
            raise AssertionError("unreachable")


async def test_a_lost_lease_cancels_the_body(database: Database) -> None:
    one, two = Leases(database, owner="one"), Leases(database, owner="two")
    is_held, was_cancelled = asyncio.Event(), False

    async def lose() -> None:
        nonlocal was_cancelled
        async with one.hold("s", LIFETIME, OFTEN):
            try:
                is_held.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cancelled = True
                raise

    losing = asyncio.create_task(lose())
    await is_held.wait()
    await let_expire(database, "s")
    await taken(two)
    with pytest.raises(Conflict) as lost:
        await asyncio.wait_for(losing, 5)
    assert lost.value.reason is ErrorReason.LEASE_LOST
    assert was_cancelled
    assert await one.acquire("s", LIFETIME) is None


async def test_a_cancelled_holder_stays_cancelled_and_releases(database: Database) -> None:
    one, two = Leases(database, owner="one"), Leases(database, owner="two")
    held = asyncio.Event()

    async def hold() -> None:
        async with one.hold("s", LIFETIME, OFTEN):
            held.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await asyncio.wait_for(held.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await taken(two)


async def test_cancelled_by_another_while_lost_stays_cancelled(database: Database) -> None:
    leases = Leases(database, owner="one")
    held = asyncio.Event()

    async def hold() -> None:
        async with leases.hold("s", LIFETIME, OFTEN):
            held.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task.cancel()
                raise

    task = asyncio.create_task(hold())
    await asyncio.wait_for(held.wait(), 5)
    await let_expire(database, "s")
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()


@pytest.mark.parametrize("swallow", [True, False])
async def test_losing_a_lease_leaves_no_cancellation_behind(
    database: Database, swallow: bool
) -> None:
    leases = Leases(database, owner="one")
    task = asyncio.current_task()
    assert task is not None

    async def lose() -> None:
        async with leases.hold("s", LIFETIME, OFTEN):
            await let_expire(database, "s")
            with suppress(asyncio.CancelledError) if swallow else nullcontext():
                await asyncio.Event().wait()

    with pytest.raises(Conflict):
        await lose()
    assert task.cancelling() == 0


async def test_an_error_in_the_body_leaves_as_it_is(database: Database) -> None:
    with pytest.raises(KeyError):
        async with Leases(database, owner="one").hold("s", LIFETIME, OFTEN):
            raise KeyError("mine")


async def test_a_silent_database_ends_the_hold_after_a_lifetime(
    sqlite_databases: Databases,
) -> None:
    database = await sqlite_databases.open(RUNTIME_TABLES)
    leases = Leases(database, owner="one")

    async def hold() -> None:
        short = timedelta(milliseconds=100)
        lease = await leases.acquire("s", short)
        assert lease is not None
        async with leases.keep(lease, OFTEN):
            await database.aclose()
            await asyncio.Event().wait()

    with pytest.raises(Unavailable):
        await asyncio.wait_for(hold(), 5)
