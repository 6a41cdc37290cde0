"""The hub: turns outlive their watchers, wait for their session, and are ended after a crash."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace

import pytest
from typing_extensions import override

from minara_core.errors import Conflict, NotFound, Unavailable
from minara_core.events import FinishReason
from minara_core.ids import TurnId
from minara_core.reasons import ErrorReason
from minara_core.turn_context import TurnContext
from minara_llm.scripted import calls, says
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress
from minara_orchestrator.app.turn_hub import MOST_TAKE_OVERS
from minara_orchestrator.app.turn_ports import Admission, Claimed, Entry, StoredEvent
from minara_orchestrator.domain.checkpoint import Interjection, Past, Told
from minara_orchestrator.domain.turn import (
    DoubleTexting,
    TakeOver,
    Turn,
    TurnRecord,
    TurnState,
)
from support.eventually import eventually
from support.orchestrator.house import House, a_turn
from support.orchestrator.peers import FakeTools, answers
from support.orchestrator.storage import FakeTurnStore


async def test_a_watcher_sees_every_event_once_and_in_order() -> None:
    house = House([says("one ", "two ", "three")])
    seen = await house.stream(a_turn())
    assert seen[0].startswith("TurnStarted")
    assert seen[-1].startswith("TurnCompleted")
    assert "".join(s.removeprefix("TextDelta:") for s in seen if s.startswith("TextDelta")) == (
        "one two three"
    )
    stored = house.store.events[TurnId("turn-1")]
    assert [event.sequence for event in stored] == list(range(1, len(stored) + 1))


async def test_a_second_watcher_gets_exactly_what_it_misses() -> None:
    house = House([says("hello")])
    turn = a_turn()
    everything = await house.stream(turn)
    for after in range(len(everything) + 1):
        assert await house.watch(turn, after) == everything[after:]


async def test_the_same_turn_again_runs_nothing() -> None:
    house = House([says("hello")])
    turn = a_turn()
    first = await house.stream(turn)
    assert await house.stream(turn) == first
    house.model.assert_exhausted()


async def test_a_turn_goes_on_when_its_watcher_leaves() -> None:
    gate = asyncio.Event()
    house = House([calls(("get_price", {})), says("done")], tools=_WaitingTools(gate))
    turn = a_turn()
    await house.hub.start(turn)
    watcher = asyncio.create_task(house.watch(turn))
    await eventually(lambda: bool(house.tools.batches))
    watcher.cancel()
    gate.set()
    assert (await house.watch(turn))[-1].startswith("TurnCompleted")


async def test_turns_of_one_session_run_one_after_another() -> None:
    gate = asyncio.Event()
    house = House(
        [calls(("get_price", {})), says("first"), says("second")], tools=_WaitingTools(gate)
    )
    first, second = a_turn(turn_id="turn-1"), a_turn(turn_id="turn-2")
    await house.hub.start(first)
    await eventually(lambda: bool(house.tools.batches))
    await house.hub.start(second)
    gate.set()
    assert (await house.watch(second))[0].startswith("TurnQueued")
    assert list(house.workspace.records) == ["turn-1", "turn-2"]


async def test_a_caller_that_rejects_double_texting_is_refused() -> None:
    gate = asyncio.Event()
    house = House([calls(("get_price", {})), says("first")], tools=_WaitingTools(gate))
    await house.hub.start(a_turn(turn_id="turn-1"))
    with pytest.raises(Conflict) as refusal:
        await house.hub.start(a_turn(turn_id="turn-2"), DoubleTexting.REJECT)
    assert refusal.value.reason is ErrorReason.TURN_RUNNING
    gate.set()
    assert (await house.watch(a_turn(turn_id="turn-1")))[-1].startswith("TurnCompleted")


async def test_a_foreign_turn_is_not_found() -> None:
    house = House([says("hello")])
    turn = a_turn()
    await house.stream(turn)
    with pytest.raises(NotFound):
        await house.watch(a_turn(user_id="somebody"))
    with pytest.raises(NotFound):
        await house.hub.start(a_turn(user_id="somebody"))


async def test_after_a_crash_the_turn_ends_as_failed_where_the_operator_wants_it_so() -> None:
    house = House([], take_over=TakeOver.FAIL)
    turn = a_turn("remember me")
    await house.store.admit(turn)
    await house.hub.recover()
    seen = await house.watch(turn)
    assert seen == ["TurnFailed:"]
    record = house.workspace.records[TurnId("turn-1")]
    assert record.state is TurnState.FAILED
    assert record.messages[0].text == "remember me"


async def test_after_a_crash_between_commit_and_answer_the_turn_is_told_as_completed() -> None:
    house = House([], take_over=TakeOver.FAIL)
    turn = a_turn()
    await house.store.admit(turn)
    await house.store.append(
        turn,
        Entry(events=[StoredEvent(sequence=1, is_terminal=False, body=b"TurnStarted:")]),
    )
    house.workspace.records[TurnId("turn-1")] = _completed(turn)
    await house.hub.recover()
    assert await house.watch(turn) == ["TurnStarted:", "TurnCompleted:"]
    assert house.model.requests == []


async def test_after_a_crash_the_turn_goes_on_and_its_watchers_see_one_stream() -> None:
    house = House([says("hello")])
    turn = a_turn()
    await house.store.admit(turn)
    started = StoredEvent(sequence=1, is_terminal=False, body=b"TurnStarted:")
    await house.store.append(turn, Entry(events=[started]))
    house.store.told[TurnId("turn-1")] = Told(has_started=True)
    await house.hub.recover()
    assert await house.watch(turn) == [
        "TurnStarted:",
        "TurnResumed:",
        "StepStarted:",
        "TextDelta:hello",
        "UsageReported:",
        "TurnCompleted:",
    ]


async def test_a_turn_that_no_process_survives_is_ended() -> None:
    house = House([])
    turn = a_turn()
    await house.store.admit(turn)
    house.store.take_overs[TurnId("turn-1")] = MOST_TAKE_OVERS
    await house.hub.recover()
    assert await house.watch(turn) == ["TurnFailed:"]


class _SlowClaims(FakeTurnStore):
    """A turn begins here after the store was told which ones run, and before it looks."""

    begin: Callable[[], Awaitable[object]] | None = None

    @override
    async def claim(self, running: Collection[TurnId]) -> list[Claimed]:
        if self.begin is not None:
            await self.begin()
        return await super().claim(running)


async def test_a_turn_that_begins_while_others_are_recovered_is_left_to_itself() -> None:
    gate = asyncio.Event()
    store = _SlowClaims()
    house = House([calls(("get_price", {})), says("done")], tools=_WaitingTools(gate), store=store)
    turn = a_turn()
    store.begin = lambda: house.hub.start(turn)
    await house.hub.recover()
    gate.set()
    seen = await house.watch(turn)
    assert seen[-1] == "TurnCompleted:"
    assert len(seen) == len(await house.store.events_after(turn.context.turn_id, 0))
    house.model.assert_exhausted()


class _SlowAdmission(FakeTurnStore):
    """Admits a turn at once and says so later."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    @override
    async def admit(self, turn: Turn, policy: DoubleTexting = DoubleTexting.ENQUEUE) -> Admission:
        admission = await super().admit(turn, policy)
        await self.gate.wait()
        return admission


async def test_a_turn_whose_caller_leaves_while_it_is_admitted_is_run() -> None:
    store = _SlowAdmission()
    house = House([says("hello")], store=store)
    turn = a_turn()
    leaving = asyncio.create_task(house.hub.start(turn))
    await eventually(lambda: bool(store.turns))
    leaving.cancel()
    await asyncio.wait([leaving])
    store.gate.set()
    await eventually(lambda: any(event.is_terminal for event in store.events[TurnId("turn-1")]))
    assert (await house.watch(turn))[-1] == "TurnCompleted:"


async def test_many_replays_of_a_finished_turn_all_end() -> None:
    house = House([says("hello")])
    turn = a_turn()
    first = await house.stream(turn)
    async with asyncio.TaskGroup() as group:
        replays = [group.create_task(house.stream(turn)) for _ in range(20)]
    assert all(replay.result() == first for replay in replays)
    house.model.assert_exhausted()


async def test_an_event_is_stored_before_it_is_delivered() -> None:
    house = House([says("one ", "two ")])
    turn = a_turn()
    await house.hub.start(turn)
    context = turn.context
    async for batch in house.hub.follow(context.turn_id, context.user_id, 0):
        stored = await house.store.events_after(context.turn_id, 0)
        assert {event.sequence for event in batch} <= {event.sequence for event in stored}


async def test_a_turn_whose_events_cannot_be_stored_is_cut_off_and_then_ended() -> None:
    house = House([calls(("get_price", {})), says("never told")], store=_FailingStore(fails_at=1))
    turn = a_turn("hi")
    with pytest.raises(Unavailable):
        await house.stream(turn)
    await house.hub.recover()
    seen = await house.watch(turn)
    assert seen[-1].startswith(("TurnFailed", "TurnCompleted"))
    assert sum(each.startswith(("TurnFailed", "TurnCompleted")) for each in seen) == 1
    assert await house.store.live_turn(turn.context.session_id, turn.context.user_id) is None


async def test_a_turn_that_nobody_watches_ends_while_its_process_drains() -> None:
    gate = asyncio.Event()
    house = House([calls(("get_price", {})), says("done")], tools=_WaitingTools(gate))
    turn = a_turn()
    await house.hub.start(turn)
    draining = asyncio.create_task(house.hub.drain(5))
    gate.set()
    await draining
    events = await house.store.events_after(turn.context.turn_id, 0)
    assert events[-1].is_terminal
    await house.hub.drain(5)


class _FailingStore(FakeTurnStore):
    """Cannot write once, at the append of that number."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self._left = fails_at

    @override
    async def append(self, turn: Turn, entry: Entry) -> Sequence[Interjection]:
        self._left -= 1
        if self._left == 0:
            raise Unavailable("locked", reason=ErrorReason.DATABASE_UNAVAILABLE)
        return await super().append(turn, entry)


class _WaitingTools(FakeTools):
    """Answers once its gate is open."""

    def __init__(self, gate: asyncio.Event) -> None:
        super().__init__()
        self._gate = gate

    @override
    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        self.batches.append(batch)
        await self._gate.wait()
        for call in batch.calls:
            yield ToolFinished(result=answers(call), duration_ms=1)


def _completed(turn: Turn) -> TurnRecord:
    return replace(
        TurnRecord.of_cut_off(turn, Past()),
        state=TurnState.COMPLETED,
        finish_reason=FinishReason.STOP,
        failure_reason="",
    )
