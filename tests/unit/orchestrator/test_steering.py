"""A running turn is spoken into, and stopped, at its next safe point."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest
from typing_extensions import override

from minara_core.errors import Conflict, Unavailable
from minara_core.events import (
    FinishReason,
    Payload,
    TextDelta,
    ToolCallFinished,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    UserInterjected,
)
from minara_core.ids import TurnId
from minara_core.messages import Role
from minara_core.reasons import ErrorReason
from minara_core.tooling import ToolFailure
from minara_core.turn_context import TurnContext
from minara_llm.model import ModelEvent, ModelRequest, ModelText
from minara_llm.scripted import Events, calls, says
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress
from minara_orchestrator.domain.checkpoint import Interjection
from minara_orchestrator.domain.turn import Limits, Stop, TurnState
from support.eventually import eventually
from support.orchestrator.house import FakeLink, House, a_turn, of_type
from support.orchestrator.peers import FakeTools, answers
from support.orchestrator.prompts import assert_paired


def a_message(text: str, number: int = 1) -> Interjection:
    return Interjection(context=a_turn(text, turn_id=f"message-{number}").context, text=text)


def texts(request: ModelRequest) -> list[str]:
    """What persons have said, as the model reads it."""
    return [message.text for message in request.messages if message.role is Role.USER]


async def test_a_message_is_read_at_the_next_step_border_and_counts_as_the_persons() -> None:
    link = FakeLink()

    def then_says(request: ModelRequest) -> Events:
        link.said.append(a_message("and ETH?"))
        return calls(("get_price", {"symbol": "BTC"}))

    house = House([then_says, says("both")])
    events = await house.play(a_turn("price of BTC"), link)
    assert of_type(events, UserInterjected) == [
        UserInterjected(text="and ETH?", message_id="message-1")
    ]
    assert texts(house.model.requests[1]) == ["price of BTC", "and ETH?"]
    assert house.tools.interjected == [("and ETH?", TurnId("turn-1"))]
    (record,) = house.workspace.records.values()
    assert_paired(record.messages)
    assert [message.role for message in record.messages][-2:] == [Role.USER, Role.ASSISTANT]


async def test_a_message_that_comes_with_the_last_words_is_answered_all_the_same() -> None:
    link = FakeLink()

    def last_words(request: ModelRequest) -> Events:
        link.said.append(a_message("one more thing"))
        return says("done")

    house = House([last_words, says("that too")])
    events = await house.play(a_turn(), link)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].pending_interjections == ()
    assert texts(house.model.requests[1])[-1] == "one more thing"


async def test_a_message_that_comes_too_late_is_given_back() -> None:
    link = FakeLink()

    def last_step(request: ModelRequest) -> Events:
        link.said.append(a_message("too late"))
        return calls(("get_price", {}))

    house = House([last_step], limits=Limits(max_steps=1))
    events = await house.play(a_turn(), link)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].pending_interjections == ("too late",)


async def test_a_message_with_the_last_words_of_the_last_step_is_given_back() -> None:
    link = FakeLink()

    def last_words(request: ModelRequest) -> Events:
        link.said.append(a_message("one more thing"))
        return says("done")

    house = House([last_words], limits=Limits(max_steps=1))
    events = await house.play(a_turn(), link)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.STOP
    assert events[-1].pending_interjections == ("one more thing",)


async def test_a_message_into_a_turn_that_fails_is_given_back() -> None:
    link = FakeLink()

    def fails(request: ModelRequest) -> Events:
        link.said.append(a_message("are you there?"))
        raise RuntimeError("boom")

    house = House([fails])
    failed = (await house.play(a_turn(), link))[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.pending_interjections == ("are you there?",)


async def test_a_message_is_read_also_when_tools_does_not_hear_of_it() -> None:
    link = FakeLink()
    tools = FakeTools()

    def speak(request: ModelRequest) -> Events:
        link.said.append(a_message("and buy it"))
        tools.open_error = Unavailable("away")
        return calls(("get_price", {}))

    house = House([speak, says("done")], tools=tools)
    events = await house.play(a_turn(), link)
    assert texts(house.model.requests[1])[-1] == "and buy it"
    assert isinstance(events[-1], TurnCompleted)


async def test_a_turn_whose_session_went_elsewhere_while_it_was_spoken_into_is_left() -> None:
    link = FakeLink()
    tools = FakeTools()

    def speak(request: ModelRequest) -> Events:
        link.said.append(a_message("hello?"))
        tools.open_error = Conflict("stale", reason=ErrorReason.EPOCH_STALE)
        return calls(("get_price", {}))

    house = House([speak], tools=tools)
    with pytest.raises(Conflict):
        await house.runner.run(a_turn(), link)
    assert house.workspace.records == {}


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


@pytest.mark.parametrize("stop", Stop)
async def test_a_turn_that_is_stopped_leaves_its_model_at_once_and_keeps_its_words(
    stop: Stop,
) -> None:
    model, link = _StallingModel(), FakeLink()
    house = House([], speakers=[model])
    playing = asyncio.create_task(house.play(a_turn(), link))
    await asyncio.wait_for(model.has_spoken.wait(), 5)
    link.stop.request(stop)
    events = await asyncio.wait_for(playing, 5)
    assert model.is_closed
    assert of_type(events, TextDelta) == [TextDelta(text="Well, ")]
    (record,) = house.workspace.records.values()
    assert record.messages[-1].text == "Well, "
    assert record.messages[-1].is_interrupted
    if stop is Stop.INTERRUPT:
        assert isinstance(events[-1], TurnCompleted)
        assert events[-1].finish_reason is FinishReason.INTERRUPTED
        assert record.state is TurnState.COMPLETED
    else:
        assert isinstance(events[-1], TurnCancelled)
        assert record.state is TurnState.CANCELLED
    assert house.breakers.of("scripted").allows(house.clock.monotonic())


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


async def stopped_in(tools: _StallingTools, *names: str) -> tuple[House, list[Payload]]:
    """A turn that is stopped while these calls are under way."""
    link = FakeLink()
    arguments: dict[str, str] = {}
    house = House([calls(*((name, arguments) for name in names))], tools=tools)
    playing = asyncio.create_task(house.play(a_turn(), link))
    await eventually(lambda: bool(tools.batches))
    link.stop.request(Stop.INTERRUPT)
    if names != ("get_price", "get_price"):
        tools.gate.set()
    return house, await asyncio.wait_for(playing, 5)


async def test_calls_that_only_read_are_left_and_get_a_result_of_their_own() -> None:
    tools = _StallingTools()
    house, events = await stopped_in(tools, "get_price", "get_price")
    assert tools.is_left
    for finished in of_type(events, ToolCallFinished):
        assert isinstance(finished.result.outcome, ToolFailure)
        assert finished.result.outcome.reason == "INTERRUPTED"
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.INTERRUPTED
    (record,) = house.workspace.records.values()
    assert_paired(record.messages)


async def test_a_call_that_may_change_something_is_waited_for() -> None:
    tools = _StallingTools()
    house, events = await stopped_in(tools, "get_price", "buy_token")
    assert not tools.is_left
    results = [event.result.outcome for event in of_type(events, ToolCallFinished)]
    assert not any(isinstance(outcome, ToolFailure) for outcome in results)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.INTERRUPTED
    (record,) = house.workspace.records.values()
    assert_paired(record.messages)


async def test_nothing_is_begun_once_the_turn_is_to_stop() -> None:
    link = FakeLink()

    def at_the_end(request: ModelRequest) -> Sequence[ModelEvent]:
        link.stop.request(Stop.INTERRUPT)
        return calls(("buy_token", {}))

    house = House([at_the_end])
    await house.play(a_turn(), link)
    assert house.tools.batches == []
    (record,) = house.workspace.records.values()
    assert_paired(record.messages)
    assert record.finish_reason is FinishReason.INTERRUPTED


async def test_a_stop_before_the_first_step_asks_no_model() -> None:
    house, link = House([]), FakeLink()
    link.stop.request(Stop.INTERRUPT)
    events = await house.play(a_turn(), link)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.INTERRUPTED
