"""TurnStore and SessionWriters: one suite for the fakes and for the real ones on both databases."""

import asyncio

import pytest
import sqlalchemy as sa

from minara_core.errors import Conflict, LimitExceeded, NotFound
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_turns import VERSIONS
from minara_orchestrator.app.turn_ports import (
    MOST_WAITING,
    Claimed,
    Entry,
    StoredEvent,
)
from minara_orchestrator.domain.checkpoint import Checkpoint
from minara_orchestrator.domain.turn import DoubleTexting, Stop
from minara_runtime.database import Dialect
from minara_runtime.process_lease import ProcessLease
from support.databases import Databases, PostgresShelf
from support.eventually import eventually
from support.orchestrator.house import a_turn
from support.orchestrator.turn_stores import FIRST, ME, Pair, a_process, event, told
from support.postgres import Cluster


async def test_a_turn_is_admitted_once(pair: Pair) -> None:
    assert (await pair.store.admit(a_turn())).is_new
    again = await pair.store.admit(a_turn())
    assert not again.is_new
    assert not again.is_over


async def test_a_foreign_turn_is_not_found(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    with pytest.raises(NotFound):
        await pair.store.admit(a_turn(user_id="somebody"))
    assert await pair.store.find(FIRST, UserId("somebody")) is None


async def test_events_come_back_byte_for_byte_and_in_order(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    await pair.events.append(a_turn(), Entry(events=[event(1), event(2)]))
    await pair.events.append(a_turn(), Entry(events=[event(3, is_terminal=True)]))
    assert await pair.events.events_after(FIRST, 0) == [
        event(1),
        event(2),
        event(3, is_terminal=True),
    ]
    assert await pair.events.events_after(FIRST, 2) == [event(3, is_terminal=True)]


async def test_a_terminal_event_ends_the_turn(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    assert await pair.store.live_turn(SessionId("session-1"), ME) == FIRST
    await pair.events.append(a_turn(), Entry(events=[event(1, is_terminal=True)]))
    found = await pair.store.find(FIRST, ME)
    assert found is not None
    assert found.is_over
    assert await pair.store.live_turn(SessionId("session-1"), ME) is None


async def test_the_live_turn_is_the_oldest_one_under_way(pair: Pair) -> None:
    await pair.store.admit(a_turn(turn_id="turn-1"))
    await pair.store.admit(a_turn(turn_id="turn-2"))
    assert await pair.store.live_turn(SessionId("session-1"), ME) == FIRST
    assert await pair.store.live_turn(SessionId("session-1"), UserId("somebody")) is None


async def test_a_turn_knows_how_many_are_ahead_of_it(pair: Pair) -> None:
    assert (await pair.store.admit(a_turn(turn_id="turn-1"))).ahead == 0
    await pair.store.admit(a_turn(turn_id="elsewhere", session_id="session-2"))
    assert (await pair.store.admit(a_turn(turn_id="turn-2"))).ahead == 1
    assert (await pair.store.admit(a_turn(turn_id="turn-3"))).ahead == 2
    await pair.events.append(a_turn(), Entry(events=[event(1, is_terminal=True)]))
    assert await pair.store.ahead(TurnId("turn-2")) == 0
    assert await pair.store.ahead(TurnId("turn-3")) == 1


async def test_only_so_many_turns_of_a_session_wait(pair: Pair) -> None:
    for number in range(MOST_WAITING + 1):
        await pair.store.admit(a_turn(turn_id=f"turn-{number}"))
    with pytest.raises(LimitExceeded):
        await pair.store.admit(a_turn(turn_id="one-too-many"))
    assert await pair.store.find(TurnId("one-too-many"), ME) is None
    await pair.events.append(a_turn(turn_id="turn-0"), Entry(events=[event(1, is_terminal=True)]))
    assert (await pair.store.admit(a_turn(turn_id="one-too-many"))).is_new


async def test_a_turn_that_wants_to_be_alone_is_refused_beside_another(pair: Pair) -> None:
    await pair.store.admit(a_turn(turn_id="turn-1"), DoubleTexting.REJECT)
    with pytest.raises(Conflict) as caught:
        await pair.store.admit(a_turn(turn_id="turn-2"), DoubleTexting.REJECT)
    assert caught.value.reason is ErrorReason.TURN_RUNNING
    assert await pair.store.find(TurnId("turn-2"), ME) is None
    assert not (await pair.store.admit(a_turn(turn_id="turn-1"), DoubleTexting.REJECT)).is_new
    await pair.events.append(a_turn(), Entry(events=[event(1, is_terminal=True)]))
    assert (await pair.store.admit(a_turn(turn_id="turn-2"), DoubleTexting.REJECT)).is_new


async def test_of_many_that_want_to_be_alone_at_once_one_is_admitted(pair: Pair) -> None:
    async def admit(number: int) -> bool:
        try:
            return (
                await pair.store.admit(a_turn(turn_id=f"turn-{number}"), DoubleTexting.REJECT)
            ).is_new
        except Conflict:
            return False

    async with asyncio.TaskGroup() as group:
        tries = [group.create_task(admit(number)) for number in range(8)]
    assert [task.result() for task in tries].count(True) == 1


async def test_who_watches_a_turn_sees_its_next_event(pair: Pair) -> None:
    await pair.store.admit(a_turn())

    async def next_event() -> StoredEvent:
        with pair.events.watch(FIRST) as stirred:
            while not (events := await pair.events.events_after(FIRST, 0)):
                await stirred()
        return events[0]

    watching = asyncio.create_task(next_event())
    await _turn_of_the_loop()
    await pair.events.append(a_turn(), Entry(events=[event(1)]))
    assert await asyncio.wait_for(watching, 5) == event(1)


@pytest.mark.postgres
async def test_another_replica_hears_of_events_at_once_and_again_after_an_outage(
    postgres_shelf: PostgresShelf, postgres_cluster: Cluster
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    here = a_process(database, "here")
    there = a_process(databases.reopen(database.url), "there")
    hearing = asyncio.create_task(there.events.listen_forever())
    await here.store.admit(a_turn())

    async def is_heard_at_once() -> bool:
        """Within far less than the second after which a watcher looks on its own."""
        loop = asyncio.get_running_loop()
        with there.events.watch(FIRST) as stirred:
            sequence = (await here.events.past(FIRST)).told.last_sequence + 1
            begin = loop.time()
            await here.events.append(a_turn(), Entry(events=[told(sequence)]))
            await stirred()
            return loop.time() - begin < 0.5

    await eventually(is_heard_at_once, timeout=10)
    await postgres_cluster.disconnect(sa.make_url(database.url).database or "")
    await eventually(is_heard_at_once, timeout=10)
    hearing.cancel()
    await asyncio.wait([hearing])
    for each in (here, there):
        await each.events.aclose()
    await databases.aclose()


async def test_one_writer_per_session_with_growing_epochs(pair: Pair) -> None:
    epochs: list[int] = []
    inside = 0

    async def write() -> None:
        nonlocal inside
        async with pair.writers.hold(SessionId("session-1")) as held:
            inside += 1
            assert inside == 1
            epochs.append(held.epoch)
            await asyncio.wait([asyncio.create_task(_turn_of_the_loop())])
            inside -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(write())
    assert epochs == sorted(set(epochs))


async def _turn_of_the_loop() -> None:
    return None


async def test_turns_of_a_dead_process_are_claimed_and_come_back_whole(
    databases: Databases,
) -> None:
    database = await databases.open(VERSIONS)
    dead = a_process(database, "dead")
    turn = a_turn("remember me", decides="action-1")
    await dead.store.admit(turn)
    await ProcessLease(database, owner="alive").begin()
    mine = a_process(database, "alive")
    await mine.store.admit(a_turn(turn_id="turn-2"))
    assert await mine.store.claim([TurnId("turn-2")]) == [Claimed(turn=turn, take_overs=1)]


async def test_a_turn_is_claimed_by_one_process_and_its_old_one_stores_no_more(
    databases: Databases, dialect: Dialect
) -> None:
    database = await databases.open(VERSIONS)
    stalled = a_process(database, "stalled")
    await stalled.store.admit(a_turn())
    await stalled.events.append(a_turn(), Entry(events=[event(1)]))
    names = ("one", "two") if dialect == "postgresql" else ("one",)  # SQLite has one at a time
    heirs = [a_process(databases.reopen(database.url), name) for name in names]
    for name in names:
        await ProcessLease(databases.reopen(database.url), owner=name).begin()
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(heir.store.claim([])) for heir in heirs]
    (owner,) = [heir for heir, task in zip(heirs, claims, strict=True) if task.result()]
    late = Entry(
        events=[event(2), event(3, is_terminal=True)], checkpoints=[Checkpoint(step=1)], closes=True
    )
    with pytest.raises(Conflict) as caught:
        await stalled.events.append(a_turn(), late)
    assert caught.value.reason is ErrorReason.LEASE_LOST
    await owner.events.append(a_turn(), Entry(events=[event(2, is_terminal=True)]))
    assert await stalled.events.events_after(FIRST, 0) == [event(1), event(2, is_terminal=True)]
    assert await owner.store.claim([]) == []


async def test_a_turn_that_was_left_in_good_order_has_cost_noa_process(
    databases: Databases,
) -> None:
    database = await databases.open(VERSIONS)
    await a_process(database, "leaving").store.admit(a_turn())
    await a_process(database, "leaving").store.leave()
    (claimed,) = await a_process(database, "heir").store.claim([])
    assert claimed.take_overs == 0


@pytest.mark.postgres
async def test_another_replica_hears_at_once_what_is_asked_and_what_is_left(
    postgres_shelf: PostgresShelf,
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    here, there = a_process(database, "here"), a_process(databases.reopen(database.url), "there")
    hearing = asyncio.create_task(there.store.listen_forever())
    assert await asyncio.wait_for(there.store.next_steered(), 10) == ()  # it has begun to listen
    await there.store.next_left()
    await here.store.admit(a_turn())
    await here.store.request_stop(FIRST, ME, Stop.INTERRUPT)
    assert await asyncio.wait_for(there.store.next_steered(), 5) == {FIRST}
    await here.store.leave()
    await asyncio.wait_for(there.store.next_left(), 2)
    hearing.cancel()
    await asyncio.wait([hearing])
    await databases.aclose()


async def test_what_was_stored_before_the_answer_was_lost_is_not_stored_twice(
    databases: Databases,
) -> None:
    database = await databases.open(VERSIONS)
    process = a_process(database, "me")
    await process.store.admit(a_turn())
    entry = Entry(events=[told(1), told(2)], checkpoints=[Checkpoint(step=1)])
    for _ in range(2):
        await process.events.append(a_turn(), entry)
    assert await process.events.events_after(FIRST, 0) == [told(1), told(2)]
    past = await process.events.past(FIRST)
    assert past.told.last_sequence == 2
    assert past.checkpoints == (Checkpoint(step=1),)


@pytest.mark.postgres
async def test_events_wait_for_a_database_that_is_away_for_a_moment(
    postgres_shelf: PostgresShelf, postgres_cluster: Cluster
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    process = a_process(database, "me")
    await process.store.admit(a_turn())
    name = sa.make_url(database.url).database or ""
    async with asyncio.TaskGroup() as group:
        for number in range(1, 40):
            entry = Entry(events=[event(number)])
            group.create_task(process.events.append(a_turn(), entry))
            if number % 10 == 0:
                await postgres_cluster.disconnect(name)
    stored = await process.events.events_after(FIRST, 0)
    assert [each.sequence for each in stored] == list(range(1, 40))
    await process.events.aclose()
    await databases.aclose()


async def test_two_processes_never_write_one_session_at_once(databases: Databases) -> None:
    url = await databases.url(VERSIONS)
    here = LeasedWriters(databases.reopen(url), owner="here")
    there = LeasedWriters(databases.reopen(url), owner="there")
    inside: list[str] = []

    async def write(writers: LeasedWriters, name: str) -> None:
        for _ in range(3):
            async with writers.hold(SessionId("session-1")):
                inside.append(name)
                assert len(inside) == 1
                inside.pop()

    async with asyncio.TaskGroup() as group:
        group.create_task(write(here, "here"))
        group.create_task(write(there, "there"))


async def test_a_turn_alone_in_its_session_has_its_lease_from_admission_to_its_end(
    databases: Databases,
) -> None:
    url = await databases.url(VERSIONS)
    here, there = (a_process(databases.reopen(url), owner) for owner in ("here", "there"))
    admission = await here.store.admit(a_turn())
    assert admission.epoch == 1
    waiting = asyncio.create_task(_epoch_of(there.writers))
    async with here.writers.hold(SessionId("session-1"), taken=1) as held:
        assert held.epoch == 1
        assert not (await asyncio.wait([waiting], timeout=0.2))[0]
        end = Entry(events=[event(1, is_terminal=True)], gives_up=held.epoch)
        await here.events.append(a_turn(), end)
        held.was_given_up = True
        assert await asyncio.wait_for(waiting, 5) == 2


async def test_a_turn_that_waits_has_no_lease(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    assert (await pair.store.admit(a_turn(turn_id="turn-2"))).epoch == 0


async def test_a_turn_whose_session_another_process_holds_is_admitted_without_its_lease(
    databases: Databases,
) -> None:
    url = await databases.url(VERSIONS)
    here, there = (a_process(databases.reopen(url), owner) for owner in ("here", "there"))
    async with there.writers.hold(SessionId("session-1")):
        assert (await here.store.admit(a_turn())).epoch == 0


async def _epoch_of(writers: LeasedWriters) -> int:
    async with writers.hold(SessionId("session-1")) as held:
        return held.epoch
