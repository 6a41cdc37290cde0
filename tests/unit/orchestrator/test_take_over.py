"""A turn that is cut off anywhere goes on from what was stored, and nothing is done twice."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from typing_extensions import override

from minara_core.errors import NotAuthenticated, Unavailable
from minara_core.events import (
    FinishReason,
    Payload,
    StepStarted,
    TerminalEvent,
    TextDelta,
    TextReset,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
)
from minara_core.messages import Message, Role
from minara_core.reasons import ErrorReason
from minara_core.tooling import ToolCall, ToolFailure, ToolResult
from minara_core.turn_context import TurnContext
from minara_llm.model import ModelRequest
from minara_llm.scripted import Events, calls, says
from minara_orchestrator.app.ports import TurnMaterial
from minara_orchestrator.domain.checkpoint import Checkpoint, Past
from minara_orchestrator.domain.turn import Limits, Stop, TurnState
from support.clock import FixedClock
from support.orchestrator.house import FakeLink, House, a_turn, of_type, past_of
from support.orchestrator.peers import FakeTools, FakeWorkspace, RememberingTools
from support.orchestrator.prompts import assert_paired

SCRIPTS = (
    calls(("get_price", {"symbol": "BTC"}), ("get_price", {"symbol": "ETH"}), text="Let me look. "),
    calls(("buy_token", {"symbol": "BTC"}), text="Now that. "),
    calls(("get_price", {"symbol": "SOL"})),
    says("All ", "done."),
)
CALLS = len(SCRIPTS) - 1
MOVES = {"buy_token"}


def otherwise(request: ModelRequest) -> Events:
    """What the model says when it is asked again for anything: something else."""
    said = sum(message.role is Role.ASSISTANT for message in request.messages)
    if said >= CALLS:
        return says("Done otherwise.")
    return calls(("get_price", {"symbol": f"OTHER-{said}"}), text="Something else. ")


async def whole() -> tuple[FakeLink, House]:
    """A turn that nothing happens to."""
    house, link = House(SCRIPTS, tools=RememberingTools()), FakeLink()
    await house.play(a_turn(), link)
    return link, house


CUTS = range(28)


@pytest.mark.parametrize("cut", CUTS)
async def test_a_turn_cut_off_anywhere_is_told_as_one_stream_and_does_nothing_twice(
    cut: int,
) -> None:
    first, before = await whole()
    told = first.log[:cut]
    assert isinstance(before.tools, RememberingTools)
    recorded = before.tools.known_at(told)
    tools = RememberingTools(
        recorded=recorded, seen={call: list(before.tools.seen[call]) for call in recorded}
    )
    house = House([otherwise] * 10, tools=tools)
    link = FakeLink(past=past_of(told))
    before_cut: list[Payload] = [each for each in told if not isinstance(each, Checkpoint)]
    events = [*before_cut, *await house.play(a_turn(), link)]
    assert_one_stream(events)
    assert isinstance(events[-1], TurnCompleted)
    (record,) = house.workspace.records.values()
    assert record.state is TurnState.COMPLETED
    assert_paired(record.messages)
    assert all(len(set(arguments)) == 1 for arguments in tools.seen.values())
    moved = [call for call in tools.ran if call.name in MOVES]
    assert len(moved) <= 1
    assert_kept_calls_stand(told, record.messages)


async def test_the_range_of_cuts_covers_the_whole_turn() -> None:
    link, _ = await whole()
    assert len(link.log) == len(CUTS)


def assert_one_stream(events: Sequence[Payload]) -> None:
    """Every started call has its one end; one start, one end of the turn, steps that count up."""
    started = [event.tool_call_id for event in of_type(events, ToolCallStarted)]
    finished = [event.result.tool_call_id for event in of_type(events, ToolCallFinished)]
    assert len(started) == len(set(started))
    assert sorted(started) == sorted(finished)
    assert len(of_type(events, TurnStarted)) == 1
    assert [isinstance(event, TerminalEvent) for event in events].index(True) == len(events) - 1
    steps = [event.step for event in of_type(events, StepStarted)]
    assert steps == sorted(set(steps))


def assert_kept_calls_stand(
    told: Sequence[Payload | Checkpoint], transcript: Sequence[Message]
) -> None:
    """What a checkpoint had of calls that may change something is what stands in the end."""
    kept = [
        call
        for each in of_type(told, Checkpoint)
        for message in each.messages
        for call in message.tool_calls
        if call.name in MOVES
    ]
    stands = [call for message in transcript for call in message.tool_calls if call.name in MOVES]
    assert stands[: len(kept)] == kept


async def test_a_step_that_may_change_something_is_kept_before_its_calls_are_sent() -> None:
    link = FakeLink()
    seen: dict[str, int] = {}

    def respond(call: ToolCall) -> ToolResult | None:
        awaiting = [each for each in link.checkpoints if each.awaits_results]
        seen[call.name] = len(awaiting)
        return None

    house = House(SCRIPTS, tools=FakeTools(respond=respond))
    await house.play(a_turn(), link)
    assert seen == {"get_price": 1, "buy_token": 1}
    (kept,) = [each for each in link.checkpoints if each.awaits_results]
    assert kept.messages[-1].tool_calls[0].name == "buy_token"
    assert link.waits == 1


async def test_calls_that_were_under_way_are_sent_again_as_they_were() -> None:
    first, _ = await whole()
    awaiting = next(
        place
        for place, each in enumerate(first.log)
        if isinstance(each, Checkpoint) and each.awaits_results
    )
    house = House([says("done")])
    link = FakeLink(past=past_of(first.log[: awaiting + 1]))
    events = await house.play(a_turn(), link)
    (batch,) = house.tools.batches
    assert [call.tool_call_id for call in batch.calls] == ["2.0"]
    assert batch.step == 2
    assert isinstance(events[0], TurnResumed)
    assert events[0].after_step == 2


async def test_a_step_of_which_nothing_was_kept_is_asked_again_under_a_number_of_its_own() -> None:
    first, _ = await whole()
    spoken = next(
        place for place, each in enumerate(first.log) if isinstance(each, ToolCallStarted)
    )
    house = House([says("Another answer.")])
    events = await house.play(a_turn(), FakeLink(past=past_of(first.log[: spoken + 1])))
    (finished,) = of_type(events, ToolCallFinished)
    assert isinstance(finished.result.outcome, ToolFailure)
    assert finished.result.outcome.reason == "INTERRUPTED"
    assert [reset.reason for reset in of_type(events, TextReset)] == ["turn_resumed"]
    assert [step.step for step in of_type(events, StepStarted)] == [3]
    (record,) = house.workspace.records.values()
    assert record.messages[-1].text == "Another answer."
    assert record.step_count == 2
    assert "Let me look" not in "".join(message.text for message in record.messages)


async def test_the_request_after_a_take_over_extends_the_one_before() -> None:
    first, before = await whole()
    kept = [place for place, each in enumerate(first.log) if isinstance(each, Checkpoint)]
    house = House([says("done")])
    house.workspace.memory_block = before.workspace.memory_block
    turn = replace(a_turn(), start_time=a_turn().start_time.replace(year=2030))
    await house.play(turn, FakeLink(past=past_of(first.log[: kept[1] + 1])))
    (request,) = house.model.requests
    assert request.messages == before.model.requests[1].messages


async def test_a_turn_whose_last_step_was_kept_is_only_committed() -> None:
    first, _ = await whole()
    last = len(first.log) - 1
    assert isinstance(first.log[last], TurnCompleted)
    house = House([])
    events = await house.play(a_turn(), FakeLink(past=past_of(first.log[:last])))
    assert [type(event) for event in events] == [TurnResumed, TurnCompleted]
    assert events[-1] == first.log[last]
    (record,) = house.workspace.records.values()
    assert record.finish_reason is FinishReason.STOP


async def test_a_budget_is_gone_on_with_and_not_begun_again() -> None:
    first, _ = await whole()
    kept = [place for place, each in enumerate(first.log) if isinstance(each, Checkpoint)]
    house = House([otherwise] * 10, limits=Limits(max_steps=2))
    events = await house.play(a_turn(), FakeLink(past=past_of(first.log[: kept[1] + 1])))
    assert len(of_type(events, StepStarted)) == 1
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.MAX_STEPS
    (record,) = house.workspace.records.values()
    assert record.usage.input_tokens == 200


async def test_a_failure_that_was_kept_is_told_and_not_tried_again() -> None:
    house, link = House([RuntimeError("boom")]), FakeLink()
    events = await house.play(a_turn(), link)
    assert isinstance(events[-1], TurnFailed)
    kept = [each for each in link.log if not isinstance(each, TurnFailed)]
    again = House([])
    resumed = await again.play(a_turn(), FakeLink(past=past_of(kept)))
    assert resumed[-1] == events[-1]
    assert again.model.requests == []


async def test_a_text_that_was_told_whole_is_not_void() -> None:
    first, _ = await whole()
    kept = [place for place, each in enumerate(first.log) if isinstance(each, Checkpoint)]
    house = House([says("done")])
    events = await house.play(a_turn(), FakeLink(past=past_of(first.log[: kept[1] + 1])))
    assert of_type(events, TextReset) == []
    assert of_type(events, TextDelta)[-1] == TextDelta(text="done")


def test_nothing_is_known_of_a_new_turn() -> None:
    assert Past().is_new
    assert not Past().has_void_step


class _LateWorkspace(FakeWorkspace):
    """Does not answer for so many tries; five seconds pass with each."""

    def __init__(self, clock: FixedClock, tries: int) -> None:
        super().__init__()
        self._clock = clock
        self._tries = tries

    @override
    async def prepare(self, context: TurnContext, message: str) -> TurnMaterial:
        self._tries -= 1
        if self._tries >= 0:
            self._clock.advance(timedelta(seconds=5))
            raise Unavailable("not there yet")
        return await super().prepare(context, message)


@pytest.mark.parametrize(("tries", "end"), [(4, TurnCompleted), (100, TurnFailed)])
async def test_a_turn_that_is_taken_over_waits_for_the_workspace(
    tries: int, end: type[Payload]
) -> None:
    first, _ = await whole()
    clock = FixedClock()
    house = House([], clock=clock, workspace=_LateWorkspace(clock, tries))
    events = await house.play(a_turn(), FakeLink(past=past_of(first.log[:-1])))
    assert isinstance(events[-1], end)
    if isinstance(events[-1], TurnFailed):
        assert events[-1].reason == ErrorReason.NOT_RECORDED


async def test_a_turn_that_begins_does_not_wait_for_the_workspace() -> None:
    clock = FixedClock()
    house = House([], clock=clock, workspace=_LateWorkspace(clock, 1))
    assert isinstance((await house.play(a_turn()))[-1], TurnFailed)


class _ClosedWorkspace(FakeWorkspace):
    """Opens no turn any more."""

    @override
    async def prepare(self, context: TurnContext, message: str) -> TurnMaterial:
        raise NotAuthenticated("the grant has expired", reason=ErrorReason.GRANT_EXPIRED)


async def test_a_turn_that_cannot_be_opened_again_is_recorded_as_far_as_it_came() -> None:
    first, _ = await whole()
    kept = [place for place, each in enumerate(first.log) if isinstance(each, Checkpoint)]
    house = House([], workspace=_ClosedWorkspace())
    events = await house.play(a_turn(), FakeLink(past=past_of(first.log[: kept[2] + 1])))
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].reason == ErrorReason.GRANT_EXPIRED
    (record,) = house.workspace.records.values()
    assert record.state is TurnState.FAILED
    assert record.messages == past_of(first.log[: kept[2] + 1]).transcript


async def test_a_stop_is_heard_while_a_turn_waits_for_the_workspace() -> None:
    first, _ = await whole()
    clock = FixedClock()
    house = House([], clock=clock, workspace=_LateWorkspace(clock, 1_000))
    link = FakeLink(past=past_of(first.log[:-1]))
    link.stop.request(Stop.INTERRUPT)
    events = await house.play(a_turn(), link)
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].reason == ErrorReason.NOT_RECORDED
    assert clock.monotonic() < FixedClock().monotonic() + 10
