"""TurnStore and SessionWriters: one suite for the fakes and for the real ones on both databases."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from minara_core.errors import Conflict, LimitExceeded, NotFound
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_turns import VERSIONS, SqlTurns
from minara_orchestrator.app.ports import MOST_WAITING, SessionWriters, StoredEvent, TurnStore
from minara_runtime.database import Dialect
from minara_runtime.process_lease import ProcessLease
from support.databases import Databases, PostgresShelf
from support.eventually import eventually
from support.orchestrator.house import a_turn
from support.orchestrator.storage import FakeTurnStore, FakeWriters
from support.postgres import Cluster

ME = UserId("local")
FIRST = TurnId("turn-1")


@dataclass
class Pair:
    store: TurnStore
    writers: SessionWriters


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def pair(request: pytest.FixtureRequest) -> AsyncGenerator[Pair]:
    if request.param == "fake":
        yield Pair(FakeTurnStore(), FakeWriters())
        return
    shelf = request.getfixturevalue(
        "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    )
    databases = Databases(shelf)
    database = await databases.open(VERSIONS)
    store = SqlTurns(database, owner="me")
    writers = LeasedWriters(database, owner="me")
    await ProcessLease(database, owner="me").begin()
    yield Pair(store, writers)
    await store.aclose()
    await databases.aclose()


def event(sequence: int, *, is_terminal: bool = False) -> StoredEvent:
    return StoredEvent(sequence=sequence, is_terminal=is_terminal, body=bytes([sequence, 0, 255]))


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
    await pair.store.append(FIRST, [event(1), event(2)])
    await pair.store.append(FIRST, [event(3, is_terminal=True)])
    assert await pair.store.events_after(FIRST, 0) == [
        event(1),
        event(2),
        event(3, is_terminal=True),
    ]
    assert await pair.store.events_after(FIRST, 2) == [event(3, is_terminal=True)]
    assert await pair.store.last_sequence(FIRST) == 3


async def test_a_terminal_event_ends_the_turn(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    assert await pair.store.live_turn(SessionId("session-1"), ME) == FIRST
    await pair.store.append(FIRST, [event(1, is_terminal=True)])
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
    await pair.store.append(FIRST, [event(1, is_terminal=True)])
    assert await pair.store.ahead(TurnId("turn-2")) == 0
    assert await pair.store.ahead(TurnId("turn-3")) == 1


async def test_only_so_many_turns_of_a_session_wait(pair: Pair) -> None:
    for number in range(MOST_WAITING + 1):
        await pair.store.admit(a_turn(turn_id=f"turn-{number}"))
    with pytest.raises(LimitExceeded):
        await pair.store.admit(a_turn(turn_id="one-too-many"))
    assert await pair.store.find(TurnId("one-too-many"), ME) is None
    await pair.store.append(TurnId("turn-0"), [event(1, is_terminal=True)])
    assert (await pair.store.admit(a_turn(turn_id="one-too-many"))).is_new


async def test_a_turn_that_wants_to_be_alone_is_refused_beside_another(pair: Pair) -> None:
    await pair.store.admit(a_turn(turn_id="turn-1"), alone=True)
    with pytest.raises(Conflict) as caught:
        await pair.store.admit(a_turn(turn_id="turn-2"), alone=True)
    assert caught.value.reason is ErrorReason.TURN_RUNNING
    assert await pair.store.find(TurnId("turn-2"), ME) is None
    assert not (await pair.store.admit(a_turn(turn_id="turn-1"), alone=True)).is_new
    await pair.store.append(FIRST, [event(1, is_terminal=True)])
    assert (await pair.store.admit(a_turn(turn_id="turn-2"), alone=True)).is_new


async def test_of_many_that_want_to_be_alone_at_once_one_is_admitted(pair: Pair) -> None:
    async def admit(number: int) -> bool:
        try:
            return (await pair.store.admit(a_turn(turn_id=f"turn-{number}"), alone=True)).is_new
        except Conflict:
            return False

    async with asyncio.TaskGroup() as group:
        tries = [group.create_task(admit(number)) for number in range(8)]
    assert [task.result() for task in tries].count(True) == 1


async def test_who_watches_a_turn_sees_its_next_event(pair: Pair) -> None:
    await pair.store.admit(a_turn())

    async def next_event() -> StoredEvent:
        with pair.store.watch(FIRST) as stirred:
            while not (events := await pair.store.events_after(FIRST, 0)):
                await stirred()
        return events[0]

    watching = asyncio.create_task(next_event())
    await _turn_of_the_loop()
    await pair.store.append(FIRST, [event(1)])
    assert await asyncio.wait_for(watching, 5) == event(1)


@pytest.mark.postgres
async def test_another_replica_hears_of_events_at_once_and_again_after_an_outage(
    postgres_shelf: PostgresShelf, postgres_cluster: Cluster
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    here = SqlTurns(database, owner="here")
    there = SqlTurns(databases.reopen(database.url), owner="there")
    hearing = asyncio.create_task(there.listen_forever())
    await here.admit(a_turn())

    async def is_heard_at_once() -> bool:
        """Within far less than the second after which a watcher looks on its own."""
        loop = asyncio.get_running_loop()
        with there.watch(FIRST) as stirred:
            sequence = await here.last_sequence(FIRST) + 1
            begin = loop.time()
            await here.append(FIRST, [event(sequence)])
            await stirred()
            return loop.time() - begin < 0.5

    await eventually(is_heard_at_once, timeout=10)
    await postgres_cluster.disconnect(sa.make_url(database.url).database or "")
    await eventually(is_heard_at_once, timeout=10)
    hearing.cancel()
    await asyncio.wait([hearing])
    for store in (here, there):
        await store.aclose()
    await databases.aclose()


async def test_one_writer_per_session_with_growing_epochs(pair: Pair) -> None:
    epochs: list[int] = []
    inside = 0

    async def write() -> None:
        nonlocal inside
        async with pair.writers.hold(SessionId("session-1")) as epoch:
            inside += 1
            assert inside == 1
            epochs.append(epoch)
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
    dead = SqlTurns(database, owner="dead")
    turn = a_turn("remember me", decides="action-1")
    await dead.admit(turn)
    await ProcessLease(database, owner="alive").begin()
    mine = SqlTurns(database, owner="alive")
    await mine.admit(a_turn(turn_id="turn-2"))
    claimed = await mine.claim([TurnId("turn-2")])
    assert [each.context.turn_id for each in claimed] == ["turn-1"]
    assert claimed[0].input == turn.input
    assert claimed[0].context == turn.context
    assert claimed[0].start_time == turn.start_time


async def test_a_turn_is_claimed_by_one_process_and_its_old_one_stores_no_more(
    databases: Databases, dialect: Dialect
) -> None:
    database = await databases.open(VERSIONS)
    stalled = SqlTurns(database, owner="stalled")
    await stalled.admit(a_turn())
    await stalled.append(FIRST, [event(1)])
    names = ("one", "two") if dialect == "postgresql" else ("one",)  # SQLite has one at a time
    heirs = [SqlTurns(databases.reopen(database.url), owner=name) for name in names]
    for name in names:
        await ProcessLease(databases.reopen(database.url), owner=name).begin()
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(heir.claim([])) for heir in heirs]
    (owner,) = [heir for heir, task in zip(heirs, claims, strict=True) if task.result()]
    with pytest.raises(Conflict) as caught:
        await stalled.append(FIRST, [event(2), event(3, is_terminal=True)])
    assert caught.value.reason is ErrorReason.LEASE_LOST
    await owner.append(FIRST, [event(2, is_terminal=True)])
    assert await stalled.events_after(FIRST, 0) == [event(1), event(2, is_terminal=True)]
    assert await owner.claim([]) == []


async def test_events_stored_before_the_answer_was_lost_are_not_stored_twice(
    databases: Databases,
) -> None:
    database = await databases.open(VERSIONS)
    store = SqlTurns(database, owner="me")
    await store.admit(a_turn())
    for _ in range(2):
        await store.append(FIRST, [event(1), event(2, is_terminal=True)])
    assert await store.events_after(FIRST, 0) == [event(1), event(2, is_terminal=True)]


@pytest.mark.postgres
async def test_events_wait_for_a_database_that_is_away_for_a_moment(
    postgres_shelf: PostgresShelf, postgres_cluster: Cluster
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    store = SqlTurns(database, owner="me")
    await store.admit(a_turn())
    name = sa.make_url(database.url).database or ""
    async with asyncio.TaskGroup() as group:
        for number in range(1, 40):
            group.create_task(store.append(FIRST, [event(number)]))
            if number % 10 == 0:
                await postgres_cluster.disconnect(name)
    stored = await store.events_after(FIRST, 0)
    assert [each.sequence for each in stored] == list(range(1, 40))
    await store.aclose()
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
