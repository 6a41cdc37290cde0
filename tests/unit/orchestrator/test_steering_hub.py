"""The hub stops turns, puts messages into them, and gives back what came too late."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from typing_extensions import override

from minara_core.errors import Conflict, Unavailable
from minara_core.ids import TurnId
from minara_core.reasons import ErrorReason
from minara_core.turn_context import TurnContext
from minara_llm.model import ModelEvent, ModelRequest, ModelText
from minara_llm.scripted import calls, says
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress
from minara_orchestrator.domain.turn import DoubleTexting, TakeOver
from support.eventually import eventually
from support.orchestrator.house import House, a_turn
from support.orchestrator.peers import FakeTools, answers


class _StallingModel:
    """Says one word and then nothing more; `is_closed` when it was left."""

    provider = "scripted"
    name = "stalling"
    context_window = 200_000

    def __init__(self) -> None:
        self.has_spoken = asyncio.Event()
        self.is_closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            yield ModelText(text="Well, ")
            self.has_spoken.set()
            await asyncio.Event().wait()
        finally:
            self.is_closed = True


class _StallingTools(FakeTools):
    """Begins every batch and ends it once its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.is_left = False

    @override
    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        self.batches.append(batch)
        try:
            await self.gate.wait()
        finally:
            self.is_left = not self.gate.is_set()
        for call in batch.calls:
            yield ToolFinished(result=answers(call), duration_ms=1)


async def test_the_hub_stops_a_turn_that_runs_and_withdraws_those_that_wait() -> None:
    model = _StallingModel()
    house = House([], speakers=[model])
    first, second = a_turn(turn_id="turn-1"), a_turn(turn_id="turn-2")
    await house.hub.start(first)
    await house.hub.start(second)
    await asyncio.wait_for(model.has_spoken.wait(), 5)
    assert await house.hub.cancel(second.context.turn_id, second.context.user_id)
    assert (await house.watch(second))[-1] == "TurnCancelled:"
    assert await house.hub.cancel(first.context.turn_id, first.context.user_id)
    assert (await house.watch(first))[-1] == "TurnCompleted:"
    assert list(house.workspace.records) == ["turn-1"]
    assert not await house.hub.cancel(first.context.turn_id, first.context.user_id)


async def test_a_turn_that_interrupts_runs_once_the_one_before_it_has_stopped() -> None:
    model = _StallingModel()
    house = House([], speakers=[model])
    await house.hub.start(a_turn(turn_id="turn-1"))
    await asyncio.wait_for(model.has_spoken.wait(), 5)
    house.speakers = [House([says("new")]).model]
    await house.hub.start(a_turn(turn_id="turn-2"), DoubleTexting.INTERRUPT)
    assert (await house.watch(a_turn(turn_id="turn-2")))[-2:] == [
        "UsageReported:",
        "TurnCompleted:",
    ]
    assert (await house.watch(a_turn(turn_id="turn-1")))[-1] == "TurnCompleted:"


async def test_a_message_put_in_is_watched_as_the_turn_it_went_into() -> None:
    gate = asyncio.Event()
    tools = _StallingTools()
    tools.gate = gate
    house = House([calls(("get_price", {})), says("both")], tools=tools)
    await house.hub.start(a_turn(turn_id="turn-1"))
    await eventually(lambda: bool(tools.batches))
    into = await house.hub.start(a_turn("and ETH?", turn_id="message-1"), DoubleTexting.INTERJECT)
    assert into == "turn-1"
    gate.set()
    whole = await house.watch(a_turn(turn_id="turn-1"))
    assert "UserInterjected:and ETH?" in whole
    assert await house.watch(a_turn(turn_id="message-1")) == whole


async def test_a_turn_whose_only_watcher_leaves_is_cancelled_if_it_was_wanted_so() -> None:
    model = _StallingModel()
    house = House([], speakers=[model])
    turn = a_turn()
    await house.hub.start(turn)
    watching = asyncio.create_task(house.watch(turn))
    await asyncio.wait_for(model.has_spoken.wait(), 5)
    watching.cancel()
    await asyncio.wait([watching])
    assert house.hub.watcher_count == 0
    house.hub.watcher_left(turn.context.turn_id, turn.context.user_id)
    await eventually(lambda: model.is_closed)
    assert (await house.watch(turn))[-1] == "TurnCancelled:"


async def test_a_turn_that_somebody_else_watches_goes_on() -> None:
    model = _StallingModel()
    house = House([], speakers=[model])
    turn = a_turn()
    await house.hub.start(turn)
    watching = asyncio.create_task(house.watch(turn))
    await asyncio.wait_for(model.has_spoken.wait(), 5)
    await eventually(lambda: house.hub.watcher_count == 1)
    house.hub.watcher_left(turn.context.turn_id, turn.context.user_id)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(watching), 0.5)
    await house.hub.cancel(turn.context.turn_id, turn.context.user_id)
    assert (await watching)[-1] == "TurnCompleted:"


async def test_what_was_said_into_a_turn_that_is_withdrawn_is_given_back() -> None:
    model = _StallingModel()
    house = House([], speakers=[model])
    first, second = a_turn(turn_id="turn-1"), a_turn(turn_id="turn-2")
    await house.hub.start(first)
    await house.hub.start(second)
    await house.hub.steer(a_turn("and this?", turn_id="message-1"), second.context.turn_id)
    await house.hub.cancel(second.context.turn_id, second.context.user_id)
    assert (await house.watch(second))[-1] == "TurnCancelled:and this?"
    await house.hub.cancel(first.context.turn_id, first.context.user_id)
    assert (await house.watch(first))[-1] == "TurnCompleted:"


async def test_what_was_said_into_a_turn_that_nobody_wants_any_more_is_given_back() -> None:
    model = _StallingModel()
    house = House([], speakers=[model])
    turn = a_turn()
    await house.hub.start(turn)
    await asyncio.wait_for(model.has_spoken.wait(), 5)
    await house.hub.steer(a_turn("and this?", turn_id="message-1"), turn.context.turn_id)
    house.hub.watcher_left(turn.context.turn_id, turn.context.user_id)
    await eventually(lambda: model.is_closed)
    assert (await house.watch(turn))[-1] == "TurnCancelled:and this?"


async def test_what_was_said_into_a_turn_that_is_not_gone_on_with_is_given_back() -> None:
    house = House([], take_over=TakeOver.FAIL)
    turn = a_turn()
    await house.store.admit(turn)
    await house.store.steer(a_turn("and this?", turn_id="message-1"), turn.context.turn_id)
    await house.hub.recover()
    assert (await house.watch(turn))[-1] == "TurnFailed:and this?"


async def test_a_turn_that_tells_a_decision_takes_no_messages() -> None:
    house = House([])
    turn = a_turn(decides="action-1")
    await house.store.admit(turn)
    with pytest.raises(Conflict) as refused:
        await house.hub.steer(a_turn("and this?", turn_id="message-1"), turn.context.turn_id)
    assert refused.value.reason is ErrorReason.TURN_OVER


async def test_another_text_under_the_id_of_a_message_is_refused() -> None:
    model = _StallingModel()
    house = House([], speakers=[model])
    turn = a_turn()
    await house.hub.start(turn)
    await asyncio.wait_for(model.has_spoken.wait(), 5)
    await house.hub.steer(a_turn("one thing", turn_id="message-1"), turn.context.turn_id)
    with pytest.raises(Conflict) as refused:
        await house.hub.steer(a_turn("another", turn_id="message-1"), turn.context.turn_id)
    assert refused.value.reason is ErrorReason.IDEMPOTENCY_KEY_REUSED
    # A message's id stands for the turn it went into.
    assert await house.hub.cancel(TurnId("message-1"), turn.context.user_id)
    assert (await house.watch(turn))[-1] == "TurnCompleted:one thing"


async def test_a_leaver_of_an_unknown_turn_is_no_bug() -> None:
    house = House([])
    house.hub.watcher_left(TurnId("unknown"), a_turn().context.user_id)
    await house.hub.aclose()
    assert house.bugs == []


async def test_a_hub_that_is_closed_starts_nothing() -> None:
    house = House([])
    await house.hub.aclose()
    with pytest.raises(Unavailable):
        await house.hub.start(a_turn())
    assert house.store.turns == {}
