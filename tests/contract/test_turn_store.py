"""TurnStore and SessionWriters: one suite for the fakes and for the real ones on both databases."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest

from minara_core.errors import NotFound
from minara_core.ids import SessionId, TurnId, UserId
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_turns import VERSIONS, SqlTurns
from minara_orchestrator.app.ports import SessionWriters, StoredEvent, TurnStore
from minara_runtime.process_lease import ProcessLease
from support.databases import Databases
from support.orchestrator.house import a_turn
from support.orchestrator.storage import FakeTurnStore, FakeWriters

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


async def test_turns_of_a_dead_process_are_orphaned_and_come_back_whole(
    databases: Databases,
) -> None:
    database = await databases.open(VERSIONS)
    dead = SqlTurns(database, owner="dead")
    turn = a_turn("remember me", decides="action-1")
    await dead.admit(turn)
    await ProcessLease(database, owner="alive").begin()
    mine = SqlTurns(database, owner="alive")
    await mine.admit(a_turn(turn_id="turn-2"))
    orphaned = await mine.orphaned()
    assert [each.context.turn_id for each in orphaned] == ["turn-1"]
    assert orphaned[0].input == turn.input
    assert orphaned[0].context == turn.context
    assert orphaned[0].start_time == turn.start_time


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
