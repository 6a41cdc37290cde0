"""The hub while the database, the workspace or other replicas are away: nothing stands still."""

import asyncio
from collections.abc import AsyncIterator, Collection
from datetime import timedelta

import pytest
from typing_extensions import override

from minara_core.errors import NotFound, Unavailable
from minara_core.ids import TurnId
from minara_core.reasons import ErrorReason
from minara_core.turn_context import TurnContext
from minara_llm.scripted import calls, says
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress
from minara_orchestrator.app.turn_ports import Admission, Entry, Steering, StoredEvent
from minara_orchestrator.domain.checkpoint import Checkpoint, Past
from minara_orchestrator.domain.turn import (
    Committed,
    DoubleTexting,
    Stop,
    Turn,
    TurnRecord,
)
from support.clock import FixedClock
from support.eventually import eventually
from support.orchestrator.house import House, a_turn
from support.orchestrator.peers import FakeTools, FakeWorkspace, answers
from support.orchestrator.storage import FakeTurnStore


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


class _AwayWorkspace(FakeWorkspace):
    """Takes no record while it is away; each try takes six seconds."""

    def __init__(self, clock: FixedClock) -> None:
        super().__init__()
        self.is_away = True
        self._clock = clock

    @override
    async def commit(self, record: TurnRecord) -> Committed:
        if self.is_away:
            self._clock.advance(timedelta(seconds=6))
            raise Unavailable("away")
        return await super().commit(record)


async def test_a_turn_that_could_not_be_recorded_is_recorded_once_it_can_be() -> None:
    clock = FixedClock()
    workspace = _AwayWorkspace(clock)
    house = House([says("hello")], workspace=workspace, clock=clock)
    turn = a_turn("remember me")
    assert (await house.stream(turn))[-1] == "TurnFailed:"
    await house.hub.record_left()
    await eventually(lambda: house.hub.is_idle)
    assert workspace.records == {}
    workspace.is_away = False
    await house.hub.record_left()
    await eventually(lambda: bool(workspace.records))
    record = workspace.records[TurnId("turn-1")]
    assert record.failure_reason == ErrorReason.NOT_RECORDED
    assert [message.text for message in record.messages][-2:] == ["remember me", "hello"]
    await eventually(lambda: house.hub.is_idle)
    assert await house.store.unrecorded() == []


class _StumblingStore(FakeTurnStore):
    """Cannot be read once, by the method of that name."""

    def __init__(self, stumbles: str) -> None:
        super().__init__()
        self.left = {stumbles: 1}

    def _stumble(self, name: str) -> None:
        self.left[name] = self.left.get(name, 0) - 1
        if self.left[name] >= 0:
            raise Unavailable("away", reason=ErrorReason.DATABASE_UNAVAILABLE)

    @override
    async def past(self, turn_id: TurnId) -> Past:
        self._stumble("past")
        return await super().past(turn_id)

    @override
    async def ahead(self, turn_id: TurnId) -> int:
        self._stumble("ahead")
        return await super().ahead(turn_id)

    @override
    async def steering(self, turn_ids: Collection[TurnId]) -> dict[TurnId, Steering]:
        self._stumble("steering")
        return await super().steering(turn_ids)


@pytest.mark.parametrize("stumbles", ["past", "ahead", "steering"])
async def test_a_turn_that_could_not_be_taken_over_at_first_is_taken_over_then(
    stumbles: str,
) -> None:
    store = _StumblingStore(stumbles)
    house = House([says("hello")], store=store)
    turn = a_turn()
    await store.admit(turn)
    await house.hub.recover()
    await eventually(lambda: house.hub.is_idle)
    assert not any(event.is_terminal for event in store.events[TurnId("turn-1")])
    await house.hub.recover()
    assert (await house.watch(turn))[-1] == "TurnCompleted:"
    assert house.bugs == []


async def test_what_is_asked_while_a_turn_is_admitted_is_heard() -> None:
    store = _SlowAdmission()
    house = House([says("hello")], store=store)
    turn = a_turn()
    starting = asyncio.create_task(house.hub.start(turn))
    await eventually(lambda: bool(store.turns))
    assert await house.hub.cancel(turn.context.turn_id, turn.context.user_id)
    store.gate.set()
    await starting
    assert (await house.watch(turn))[-1] in {"TurnCompleted:", "TurnCancelled:"}
    assert house.model.requests == []


class _WordStore(FakeTurnStore):
    """Words come from other replicas, and cannot be looked up at first."""

    def __init__(self) -> None:
        super().__init__()
        self.words: asyncio.Queue[TurnId] = asyncio.Queue()
        self.is_away = False

    @override
    async def next_steered(self) -> Collection[TurnId]:
        return {await self.words.get()}

    @override
    async def steering(self, turn_ids: Collection[TurnId]) -> dict[TurnId, Steering]:
        if self.is_away:
            raise Unavailable("away")
        return await super().steering(turn_ids)


async def test_a_word_that_could_not_be_followed_at_once_is_followed_later() -> None:
    gate = asyncio.Event()
    store = _WordStore()
    house = House([calls(("get_price", {}))], tools=_WaitingTools(gate), store=store)
    turn = a_turn()
    await house.hub.start(turn)
    await eventually(lambda: bool(house.tools.batches))
    hearing = asyncio.create_task(house.hub.steer_forever())
    store.is_away = True
    await store.request_stop(turn.context.turn_id, turn.context.user_id, Stop.INTERRUPT)
    store.words.put_nowait(turn.context.turn_id)
    await eventually(lambda: store.words.empty())
    store.is_away = False
    assert (await asyncio.wait_for(house.watch(turn), 5))[-1] == "TurnCompleted:"
    hearing.cancel()
    await asyncio.wait([hearing])


class _PoisonWorkspace(FakeWorkspace):
    """Will never take this record."""

    @override
    async def commit(self, record: TurnRecord) -> Committed:
        raise NotFound("no such session", reason=ErrorReason.SESSION_NOT_FOUND)


async def test_a_turn_that_can_never_be_recorded_is_given_up() -> None:
    house = House([], workspace=_PoisonWorkspace())
    turn = a_turn()
    await house.store.admit(turn)
    ended = StoredEvent(sequence=1, is_terminal=True, body=b"TurnFailed:")
    entry = Entry(events=[ended], checkpoints=[Checkpoint(step=1)], is_unrecorded=True)
    await house.store.append(turn, entry)
    for _ in range(2):
        await house.hub.record_left()
        await eventually(lambda: house.hub.is_idle)
    assert len(house.bugs) == 1
    assert await house.store.unrecorded() == []
