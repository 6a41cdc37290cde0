"""TurnStore and SessionWriters: one suite for the fakes and for the real ones on both databases."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import sqlalchemy as sa

from minara.agent.v1 import event_pb2 as event_pb
from minara_core.clock import SystemClock
from minara_core.errors import Conflict, LimitExceeded, NotFound
from minara_core.events import FinishReason, TokenUsage
from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.messages import Message, Role, ThinkingBlock, ToolCallBlock, user_message
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import LifecycleStage, PermissionTier
from minara_core.tooling import ToolCall
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.sql_turn_events import SqlTurnEvents
from minara_orchestrator.adapters.sql_turns import VERSIONS, SqlTurns
from minara_orchestrator.app.turn_ports import (
    MOST_WAITING,
    Claimed,
    Entry,
    SessionWriters,
    StoredEvent,
    TurnEvents,
    TurnStore,
)
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Opening
from minara_orchestrator.domain.turn import DoubleTexting, Stop, Turn
from minara_runtime.database import Database, Dialect
from minara_runtime.process_lease import ProcessLease
from support.actions import an_action
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
    events: TurnEvents
    writers: SessionWriters


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def pair(request: pytest.FixtureRequest) -> AsyncGenerator[Pair]:
    if request.param == "fake":
        fake = FakeTurnStore()
        yield Pair(fake, fake, FakeWriters())
        return
    shelf = request.getfixturevalue(
        "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    )
    databases = Databases(shelf)
    database = await databases.open(VERSIONS)
    store = SqlTurns(database, owner="me")
    events = SqlTurnEvents(database, owner="me", clock=SystemClock())
    writers = LeasedWriters(database, owner="me")
    await ProcessLease(database, owner="me").begin()
    yield Pair(store, events, writers)
    await events.aclose()
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
    await pair.events.append(FIRST, Entry(events=[event(1), event(2)]))
    await pair.events.append(FIRST, Entry(events=[event(3, is_terminal=True)]))
    assert await pair.events.events_after(FIRST, 0) == [
        event(1),
        event(2),
        event(3, is_terminal=True),
    ]
    assert await pair.events.events_after(FIRST, 2) == [event(3, is_terminal=True)]


async def test_a_terminal_event_ends_the_turn(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    assert await pair.store.live_turn(SessionId("session-1"), ME) == FIRST
    await pair.events.append(FIRST, Entry(events=[event(1, is_terminal=True)]))
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
    await pair.events.append(FIRST, Entry(events=[event(1, is_terminal=True)]))
    assert await pair.store.ahead(TurnId("turn-2")) == 0
    assert await pair.store.ahead(TurnId("turn-3")) == 1


async def test_only_so_many_turns_of_a_session_wait(pair: Pair) -> None:
    for number in range(MOST_WAITING + 1):
        await pair.store.admit(a_turn(turn_id=f"turn-{number}"))
    with pytest.raises(LimitExceeded):
        await pair.store.admit(a_turn(turn_id="one-too-many"))
    assert await pair.store.find(TurnId("one-too-many"), ME) is None
    await pair.events.append(TurnId("turn-0"), Entry(events=[event(1, is_terminal=True)]))
    assert (await pair.store.admit(a_turn(turn_id="one-too-many"))).is_new


async def test_a_turn_that_wants_to_be_alone_is_refused_beside_another(pair: Pair) -> None:
    await pair.store.admit(a_turn(turn_id="turn-1"), DoubleTexting.REJECT)
    with pytest.raises(Conflict) as caught:
        await pair.store.admit(a_turn(turn_id="turn-2"), DoubleTexting.REJECT)
    assert caught.value.reason is ErrorReason.TURN_RUNNING
    assert await pair.store.find(TurnId("turn-2"), ME) is None
    assert not (await pair.store.admit(a_turn(turn_id="turn-1"), DoubleTexting.REJECT)).is_new
    await pair.events.append(FIRST, Entry(events=[event(1, is_terminal=True)]))
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
    await pair.events.append(FIRST, Entry(events=[event(1)]))
    assert await asyncio.wait_for(watching, 5) == event(1)


@pytest.mark.postgres
async def test_another_replica_hears_of_events_at_once_and_again_after_an_outage(
    postgres_shelf: PostgresShelf, postgres_cluster: Cluster
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    here = _process(database, "here")
    there = _process(databases.reopen(database.url), "there")
    hearing = asyncio.create_task(there.events.listen_forever())
    await here.store.admit(a_turn())

    async def is_heard_at_once() -> bool:
        """Within far less than the second after which a watcher looks on its own."""
        loop = asyncio.get_running_loop()
        with there.events.watch(FIRST) as stirred:
            sequence = (await here.events.past(FIRST)).told.last_sequence + 1
            begin = loop.time()
            await here.events.append(FIRST, Entry(events=[_told(sequence)]))
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


@dataclass
class Process:
    """What one process has."""

    store: SqlTurns
    events: SqlTurnEvents


def _process(database: Database, owner: str) -> Process:
    return Process(
        SqlTurns(database, owner=owner), SqlTurnEvents(database, owner=owner, clock=SystemClock())
    )


def _told(sequence: int) -> StoredEvent:
    """An event as the real ones are stored: its wire bytes."""
    body = event_pb.TurnEvent(sequence=sequence, text_delta=event_pb.TextDelta(text="word"))
    return StoredEvent(sequence=sequence, is_terminal=False, body=body.SerializeToString())


async def test_turns_of_a_dead_process_are_claimed_and_come_back_whole(
    databases: Databases,
) -> None:
    database = await databases.open(VERSIONS)
    dead = _process(database, "dead")
    turn = a_turn("remember me", decides="action-1")
    await dead.store.admit(turn)
    await ProcessLease(database, owner="alive").begin()
    mine = _process(database, "alive")
    await mine.store.admit(a_turn(turn_id="turn-2"))
    assert await mine.store.claim([TurnId("turn-2")]) == [Claimed(turn=turn, take_overs=1)]


async def test_a_turn_is_claimed_by_one_process_and_its_old_one_stores_no_more(
    databases: Databases, dialect: Dialect
) -> None:
    database = await databases.open(VERSIONS)
    stalled = _process(database, "stalled")
    await stalled.store.admit(a_turn())
    await stalled.events.append(FIRST, Entry(events=[event(1)]))
    names = ("one", "two") if dialect == "postgresql" else ("one",)  # SQLite has one at a time
    heirs = [_process(databases.reopen(database.url), name) for name in names]
    for name in names:
        await ProcessLease(databases.reopen(database.url), owner=name).begin()
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(heir.store.claim([])) for heir in heirs]
    (owner,) = [heir for heir, task in zip(heirs, claims, strict=True) if task.result()]
    late = Entry(
        events=[event(2), event(3, is_terminal=True)], checkpoints=[Checkpoint(step=1)], closes=True
    )
    with pytest.raises(Conflict) as caught:
        await stalled.events.append(FIRST, late)
    assert caught.value.reason is ErrorReason.LEASE_LOST
    await owner.events.append(FIRST, Entry(events=[event(2, is_terminal=True)]))
    assert await stalled.events.events_after(FIRST, 0) == [event(1), event(2, is_terminal=True)]
    assert await owner.store.claim([]) == []


async def test_a_turn_that_was_left_in_good_order_has_cost_no_process(
    databases: Databases,
) -> None:
    database = await databases.open(VERSIONS)
    await _process(database, "leaving").store.admit(a_turn())
    await _process(database, "leaving").store.leave()
    (claimed,) = await _process(database, "heir").store.claim([])
    assert claimed.take_overs == 0


@pytest.mark.postgres
async def test_another_replica_hears_at_once_what_is_asked_and_what_is_left(
    postgres_shelf: PostgresShelf,
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    here, there = _process(database, "here"), _process(databases.reopen(database.url), "there")
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
    process = _process(database, "me")
    await process.store.admit(a_turn())
    entry = Entry(events=[_told(1), _told(2)], checkpoints=[Checkpoint(step=1)])
    for _ in range(2):
        await process.events.append(FIRST, entry)
    assert await process.events.events_after(FIRST, 0) == [_told(1), _told(2)]
    past = await process.events.past(FIRST)
    assert past.told.last_sequence == 2
    assert past.checkpoints == (Checkpoint(step=1),)


@pytest.mark.postgres
async def test_events_wait_for_a_database_that_is_away_for_a_moment(
    postgres_shelf: PostgresShelf, postgres_cluster: Cluster
) -> None:
    databases = Databases(postgres_shelf)
    database = await databases.open(VERSIONS)
    process = _process(database, "me")
    await process.store.admit(a_turn())
    name = sa.make_url(database.url).database or ""
    async with asyncio.TaskGroup() as group:
        for number in range(1, 40):
            entry = Entry(events=[event(number)])
            group.create_task(process.events.append(FIRST, entry))
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


def a_message(text: str = "and ETH?", *, turn_id: str = "message-1", **where: str) -> Turn:
    return a_turn(text, turn_id=turn_id, **where)


async def test_a_message_is_put_into_a_running_turn_once(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    for is_new in (True, False):
        admission = await pair.store.steer(a_message(), FIRST)
        assert (admission.is_new, admission.into) == (is_new, FIRST)
    (said,) = (await pair.store.steering([FIRST]))[FIRST].interjections
    assert said == Interjection(context=a_message().context, text="and ETH?")


@pytest.mark.parametrize("message", [a_message(user_id="somebody"), a_message(session_id="other")])
async def test_nobody_speaks_into_a_foreign_turn_or_session(pair: Pair, message: Turn) -> None:
    await pair.store.admit(a_turn())
    with pytest.raises(NotFound):
        await pair.store.steer(message, FIRST)
    with pytest.raises(NotFound):
        await pair.store.steer(message, TurnId("unknown"))
    assert await pair.store.steering([FIRST]) == {}


async def test_a_message_that_is_put_in_is_found_as_part_of_its_turn(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    admission = await pair.store.admit(a_message(), DoubleTexting.INTERJECT)
    assert admission.into == FIRST
    found = await pair.store.find(TurnId("message-1"), ME)
    assert found is not None
    assert found.into == FIRST
    again = await pair.store.admit(a_message(), DoubleTexting.INTERJECT)
    assert (again.is_new, again.into) == (False, FIRST)
    assert await pair.store.live_turn(SessionId("session-1"), ME) == FIRST
    assert await pair.store.ahead(FIRST) == 0


async def test_a_message_for_a_session_in_which_nothing_runs_is_a_turn(pair: Pair) -> None:
    admission = await pair.store.admit(a_message(), DoubleTexting.INTERJECT)
    assert (admission.is_new, admission.into) == (True, None)
    assert await pair.store.live_turn(SessionId("session-1"), ME) == TurnId("message-1")


async def test_a_closed_turn_tells_what_it_was_given_and_takes_no_more(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    await pair.store.steer(a_message("one", turn_id="message-1"), FIRST)
    await pair.store.steer(a_message("two", turn_id="message-2"), FIRST)
    heard = await pair.events.append(FIRST, Entry(closes=True))
    assert [each.text for each in heard] == ["one", "two"]
    with pytest.raises(Conflict) as refused:
        await pair.store.steer(a_message(turn_id="message-3"), FIRST)
    assert refused.value.reason is ErrorReason.TURN_OVER
    late = await pair.store.admit(a_message(turn_id="message-4"), DoubleTexting.INTERJECT)
    assert (late.is_new, late.into, late.ahead) == (True, None, 1)


async def test_of_messages_that_race_with_the_close_none_is_lost(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    taken: list[str] = []

    async def say(number: int) -> None:
        message_id = f"message-{number}"
        try:
            await pair.store.steer(a_message(turn_id=message_id), FIRST)
        except Conflict:
            return
        taken.append(message_id)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(say(number))
        closing = group.create_task(pair.events.append(FIRST, Entry(closes=True)))
        for number in range(6, 12):
            group.create_task(say(number))
    assert sorted(each.message_id for each in closing.result()) == sorted(taken)


async def test_only_so_many_messages_are_put_into_a_turn(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    for number in range(MOST_WAITING):
        await pair.store.steer(a_message(turn_id=f"message-{number}"), FIRST)
    with pytest.raises(LimitExceeded):
        await pair.store.steer(a_message(turn_id="one-too-many"), FIRST)


async def test_a_turn_is_asked_to_stop_once_and_only_by_its_person(pair: Pair) -> None:
    await pair.store.admit(a_turn())
    assert await pair.store.request_stop(FIRST, ME, Stop.INTERRUPT)
    assert await pair.store.request_stop(FIRST, ME, Stop.CANCEL)
    assert (await pair.store.steering([FIRST]))[FIRST].stop is Stop.INTERRUPT
    with pytest.raises(NotFound):
        await pair.store.request_stop(FIRST, UserId("somebody"), Stop.INTERRUPT)
    await pair.events.append(FIRST, Entry(events=[event(1, is_terminal=True)]))
    assert not await pair.store.request_stop(FIRST, ME, Stop.INTERRUPT)


async def test_a_turn_that_interrupts_stops_all_before_it_and_none_after_it(pair: Pair) -> None:
    for number in (1, 2):
        await pair.store.admit(a_turn(turn_id=f"turn-{number}"))
    await pair.store.admit(a_turn(turn_id="elsewhere", session_id="session-2"))
    third = await pair.store.admit(a_turn(turn_id="turn-3"), DoubleTexting.INTERRUPT)
    await pair.store.admit(a_turn(turn_id="turn-4"))
    assert sorted(third.stopped) == ["turn-1", "turn-2"]
    everybody = [TurnId(each) for each in ("turn-1", "turn-2", "turn-3", "turn-4", "elsewhere")]
    asked = await pair.store.steering(everybody)
    assert sorted(asked) == ["turn-1", "turn-2"]
    again = await pair.store.admit(a_turn(turn_id="turn-3"), DoubleTexting.INTERRUPT)
    assert (again.is_new, again.stopped) == (False, ())


async def test_checkpoints_come_back_whole_and_go_with_their_turn(pair: Pair) -> None:
    opening = Opening(
        sent_blocks=("skill:core@1",), stage=LifecycleStage.DECIDE, risk_ceiling=PermissionTier(3)
    )
    call = ToolCall(
        tool_call_id=ToolCallId("1.0"), name="buy_token", arguments_json='{"amount":"5.00"}'
    )
    first = Checkpoint(
        messages=(user_message("hello"),), callable_tools=("get_price",), opening=opening
    )
    second = Checkpoint(
        step=1,
        messages=(
            Message(
                role=Role.ASSISTANT,
                blocks=(ThinkingBlock("hm"), ToolCallBlock(call)),
                provider_state='{"ids":["a"]}',
            ),
        ),
        awaits_results=True,
        usage=TokenUsage(input_tokens=7, cost_usd=Decimal("0.0125")),
        tool_calls=1,
        speaker="anthropic:claude",
    )
    third = Checkpoint(
        step=1,
        pending_actions=(an_action(),),
        interjections=(TurnId("message-1"),),
        finish_reason=FinishReason.BUDGET,
        limit="turn_usd",
        failure_reason="INTERNAL",
        failure_message="it broke",
    )
    await pair.store.admit(a_turn())
    await pair.events.append(FIRST, Entry(events=[_told(1)], checkpoints=[first, second]))
    await pair.events.append(FIRST, Entry(checkpoints=[third], checkpoints_before=2))
    past = await pair.events.past(FIRST)
    assert past.checkpoints == (first, second, third)
    assert past.told.last_sequence == 1
    await pair.events.append(FIRST, Entry(events=[event(2, is_terminal=True)]))
    assert (await _checkpoints(pair)) == ()


async def _checkpoints(pair: Pair) -> tuple[Checkpoint, ...]:
    """Of a turn that is over, whose last event here is no real one."""
    if isinstance(pair.store, FakeTurnStore):
        return tuple(pair.store.checkpoints.get(FIRST, {}).values())
    await pair.events.expire(datetime.max.replace(tzinfo=UTC))
    return (await pair.events.past(FIRST)).checkpoints


async def test_events_are_kept_until_their_turn_is_long_over(databases: Databases) -> None:
    database = await databases.open(VERSIONS)
    process = _process(database, "me")
    await process.store.admit(a_turn())
    await process.store.admit(a_turn(turn_id="turn-2"))
    await process.events.append(FIRST, Entry(events=[event(1), event(2, is_terminal=True)]))
    await process.events.append(TurnId("turn-2"), Entry(events=[event(1)]))
    now = SystemClock().now()
    assert await process.events.expire(now - timedelta(days=1)) == 0
    assert len(await process.events.events_after(FIRST, 0)) == 2
    assert await process.events.expire(now + timedelta(days=1)) == 1
    assert await process.events.events_after(FIRST, 0) == []
    assert not await process.events.has_any(FIRST)
    assert await process.events.has_any(TurnId("turn-2"))
    assert await process.events.expire(now + timedelta(days=1)) == 0
