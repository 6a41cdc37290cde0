"""What providers do to a turn: it goes on, its text never repeats, and nothing is spent unseen."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from minara_core.events import (
    FinishReason,
    ModelSwitched,
    StepStarted,
    TextDelta,
    TextReset,
    TokenUsage,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UsageReported,
)
from minara_core.ids import TurnId
from minara_core.messages import Role
from minara_core.reasons import ErrorReason
from minara_llm.model import (
    FailureKind,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelToolCall,
    ModelUsage,
    StopReason,
)
from minara_llm.scripted import Script, ScriptedModel, calls, says
from minara_orchestrator.domain.turn import Limits
from support.orchestrator.house import House, a_turn, of_type

NOW = 0.0
"""Seconds a provider asks us to wait in these tests."""


def failure(
    kind: FailureKind = FailureKind.OVERLOADED, retry_after: float | None = NOW
) -> ModelFailure:
    return ModelFailure("the provider broke", kind=kind, retry_after_seconds=retry_after)


def breaks_after(*events: ModelEvent, kind: FailureKind = FailureKind.CONNECTION) -> Script:
    """A stream that says something, then breaks."""

    def play(_: ModelRequest) -> Iterator[ModelEvent]:
        yield from events
        raise failure(kind)

    return play


def heard(events: list[object]) -> str:
    """The text as a client has it that obeys text_reset."""
    text = ""
    for event in events:
        match event:
            case StepStarted() | TextReset():
                text = ""
            case TextDelta():
                text += event.text
            case _:
                pass
    return text


async def test_an_overloaded_model_is_asked_once_more_and_nobody_notices() -> None:
    house = House([failure(), says("Hello.")])
    events = await house.play(a_turn())
    assert heard([*events]) == "Hello."
    assert not of_type(events, TextReset)
    assert not of_type(events, ModelSwitched)
    assert len(of_type(events, StepStarted)) == 1
    assert isinstance(events[-1], TurnCompleted)


async def test_a_model_that_fails_twice_is_left_for_the_next_one_which_keeps_the_turn() -> None:
    other = ScriptedModel([calls(("get_price", {})), says("from the other")], provider="other")
    house = House([failure(), failure()], others=[other])
    events = await house.play(a_turn())
    switched = ModelSwitched(
        from_model="scripted:scripted", to_model="other:scripted", reason="overloaded"
    )
    assert of_type(events, ModelSwitched) == [switched]
    assert heard([*events]) == "from the other"
    record = house.workspace.records[TurnId("turn-1")]
    assert (record.provider, record.model) == ("other", "scripted")
    house.model.assert_exhausted()
    other.assert_exhausted()


async def test_the_next_turn_begins_with_the_first_model_again() -> None:
    other = ScriptedModel([says("from the other")], provider="other")
    house = House([failure(), failure(), says("back")], others=[other])
    await house.play(a_turn("one", turn_id="turn-1"))
    events = await house.play(a_turn("two", turn_id="turn-2"))
    assert heard([*events]) == "back"


async def test_text_of_a_broken_stream_is_voided_before_another_attempt_speaks() -> None:
    house = House([breaks_after(ModelText(text="Hello, I am")), says("Hello there.")])
    events = await house.play(a_turn())
    assert heard([*events]) == "Hello there."
    assert [type(event) for event in events if isinstance(event, TextDelta | TextReset)] == [
        TextDelta,
        TextReset,
        TextDelta,
    ]
    messages = house.workspace.records[TurnId("turn-1")].messages
    assert [m.text for m in messages if m.role is Role.ASSISTANT] == ["Hello there."]


async def test_calls_of_a_broken_stream_never_run() -> None:
    broken = breaks_after(
        ModelText(text="Buying"),
        ModelToolCall(name="buy_token", arguments_json='{"symbol":"ETH"}'),
    )
    house = House([broken, says("I thought better of it.")])
    events = await house.play(a_turn("buy"))
    assert not of_type(events, ToolCallStarted)
    assert house.tools.batches == []


async def test_a_refused_key_goes_straight_to_the_next_model() -> None:
    other = ScriptedModel([says("fine")], provider="other")
    house = House([failure(FailureKind.AUTHENTICATION)], others=[other])
    events = await house.play(a_turn())
    assert heard([*events]) == "fine"
    house.model.assert_exhausted()


async def test_a_provider_that_wants_a_long_rest_is_passed_over() -> None:
    other = ScriptedModel([says("fine")], provider="other")
    house = House([failure(FailureKind.RATE_LIMITED, 60.0)], others=[other])
    assert heard([*await house.play(a_turn())]) == "fine"


async def test_a_provider_that_keeps_failing_is_left_alone_by_the_turns_that_follow() -> None:
    other = ScriptedModel([says("fine")] * 4, provider="other")
    house = House([failure()] * 5, others=[other])
    told = [await house.play(a_turn(turn_id=f"turn-{number}")) for number in range(4)]
    assert [heard([*events]) for events in told] == ["fine"] * 4
    house.model.assert_exhausted()
    reasons = [switch.reason for switch in of_type(told[-1], ModelSwitched)]
    assert reasons == ["circuit_open"]


async def test_with_nobody_else_the_turn_fails_and_keeps_what_was_said() -> None:
    house = House([breaks_after(ModelText(text="Hel")), breaks_after(ModelText(text="Hell"))])
    events = await house.play(a_turn())
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].reason == ErrorReason.MODEL_UNAVAILABLE
    messages = house.workspace.records[TurnId("turn-1")].messages
    assert [m.text for m in messages if m.is_interrupted] == ["Hell"]


async def test_with_every_model_down_fixed_rules_answer_and_the_turn_says_degraded() -> None:
    house = House([failure(), failure()], is_degradable=True)
    events = await house.play(a_turn("price of BTC"))
    assert [call.name for call in of_type(events, ToolCallStarted)] == ["get_price"]
    completed = events[-1]
    assert isinstance(completed, TurnCompleted)
    assert completed.finish_reason is FinishReason.DEGRADED
    assert house.workspace.records[TurnId("turn-1")].provider == "offline"


async def test_degraded_service_offers_no_tool_that_moves_money() -> None:
    house = House([failure(), failure()], is_degradable=True)
    events = await house.play(a_turn("buy 50 USDC of ETH"))
    assert not of_type(events, ToolCallStarted)
    assert isinstance(events[-1], TurnCompleted)


async def test_what_a_broken_attempt_used_is_charged_too() -> None:
    used = ModelUsage(usage=TokenUsage(input_tokens=70, output_tokens=3))
    house = House([breaks_after(used, ModelText(text="Hel")), says("Hello.")])
    events = await house.play(a_turn())
    assert of_type(events, UsageReported)[0].usage.input_tokens == 170
    completed = events[-1]
    assert isinstance(completed, TurnCompleted)
    assert completed.usage.input_tokens == 170


async def test_a_provider_that_reports_no_usage_is_charged_by_estimate() -> None:
    house = House([(ModelText(text="Hello."), ModelStop(reason=StopReason.END))])
    events = await house.play(a_turn())
    usage = of_type(events, UsageReported)[0].usage
    assert usage.input_tokens > 10
    assert usage.output_tokens >= 1


async def test_a_call_that_could_pass_a_limit_is_not_made() -> None:
    scripts = [calls(("get_price", {}), usage=TokenUsage(input_tokens=900, output_tokens=1))] * 3
    house = House(scripts, limits=Limits(max_input_tokens=2_000))
    events = await house.play(a_turn())
    completed = events[-1]
    assert isinstance(completed, TurnCompleted)
    assert completed.finish_reason is FinishReason.BUDGET
    assert completed.usage.input_tokens <= 2_000
    assert len(of_type(events, StepStarted)) == len(house.model.requests)


PRICED = "claude-sonnet-5-5"
"""2.5 dollars a million tokens of input that is written to the cache, 10 of output."""


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        (Limits(max_cost_usd=Decimal("0.001")), Decimal(0)),
        (Limits(max_session_day_usd=Decimal(5)), Decimal("4.9999")),
    ],
)
async def test_a_call_whose_reserve_passes_the_dollars_left_is_not_made(
    limits: Limits, spent: Decimal
) -> None:
    house = House([], limits=limits)
    house.workspace.spent_today_usd = spent
    house.model = ScriptedModel([], name=PRICED)
    events = await house.play(a_turn("hello " * 200))
    completed = events[-1]
    assert isinstance(completed, TurnCompleted)
    assert completed.finish_reason is FinishReason.BUDGET
    assert house.model.requests == []


async def test_the_dollars_left_bound_what_a_call_may_say() -> None:
    house = House([], limits=Limits(max_cost_usd=Decimal("0.02")))
    house.model = ScriptedModel([says("ok")], name=PRICED)
    await house.play(a_turn())
    most = house.model.requests[0].max_output_tokens
    assert 64 <= most <= 2_000


async def test_a_turn_starts_with_the_model_that_will_speak() -> None:
    house = House([says("hi")])
    events = await house.play(a_turn())
    started = events[0]
    assert isinstance(started, TurnStarted)
    assert (started.provider, started.model) == ("scripted", "scripted")


async def test_a_prompt_too_long_for_one_model_goes_to_the_next() -> None:
    small = ScriptedModel([], provider="small", context_window=4_096)
    other = ScriptedModel([says("it fits here")], provider="other")
    house = House([failure(FailureKind.AUTHENTICATION)], others=[small, other])
    house.workspace.memory_block = "so much is known " * 1_500
    events = await house.play(a_turn())
    assert heard([*events]) == "it fits here"
    assert [switch.reason for switch in of_type(events, ModelSwitched)] == [
        "authentication",
        "context_overflow",
    ]


async def test_a_prompt_too_long_for_every_model_fails_the_turn_as_that() -> None:
    house = House([], context_window=4_096)
    house.workspace.memory_block = "so much is known " * 1_500
    events = await house.play(a_turn())
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].reason == ErrorReason.CONTEXT_TOO_LARGE


async def test_what_a_small_model_needs_cut_is_not_cut_for_the_first_choice() -> None:
    long = [says("word " * 2_000) for _ in range(6)]
    small = ScriptedModel([says("from the small one")], name="small", context_window=16_000)
    house = House([*long, failure(FailureKind.AUTHENTICATION), says("whole again")], others=[small])
    for number in range(6):
        await house.play(a_turn(f"say {number}", turn_id=f"turn-{number}"))
    before = len(house.model.requests[-1].messages)
    events = await house.play(a_turn("who?", turn_id="turn-6"))
    assert heard([*events]) == "from the small one"
    assert len(small.requests[0].messages) < before
    assert house.workspace.records[TurnId("turn-6")].compaction is None
    await house.play(a_turn("and now?", turn_id="turn-7"))
    assert len(house.model.requests[-1].messages) > before


async def test_a_refusal_runs_none_of_its_calls() -> None:
    call = ModelToolCall(name="buy_token", arguments_json='{"symbol":"ETH"}')
    house = House([(ModelText(text="I will not."), call, ModelStop(reason=StopReason.REFUSAL))])
    events = await house.play(a_turn("buy"))
    assert house.tools.batches == []
    completed = events[-1]
    assert isinstance(completed, TurnCompleted)
    assert completed.finish_reason is FinishReason.REFUSAL


async def test_a_turn_out_of_time_ends_as_budget_with_what_was_said() -> None:
    house = House([says("too late")], limits=Limits(wall_time_seconds=0.0))
    events = await house.play(a_turn())
    completed = events[-1]
    assert isinstance(completed, TurnCompleted)
    assert completed.finish_reason is FinishReason.BUDGET
