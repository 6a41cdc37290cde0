"""A model that never stops calling is stopped by each budget, with its reason and what it said."""

from datetime import timedelta
from decimal import Decimal

import pytest

from minara_core.events import (
    FinishReason,
    StepStarted,
    TextDelta,
    TokenUsage,
    ToolCallFinished,
    TurnCompleted,
)
from minara_core.tooling import ToolDenial
from minara_llm.model import ModelRequest
from minara_llm.scripted import Events, calls
from minara_orchestrator.domain.turn import Limits
from support.clock import FixedClock
from support.orchestrator.house import House, a_turn, of_type
from support.orchestrator.peers import FakeWorkspace

USAGE = TokenUsage(input_tokens=1_000, output_tokens=100, cost_usd=Decimal("0.10"))


def loops(request: ModelRequest) -> Events:
    return calls(("get_price", {"symbol": "BTC"}), text="Again. ", usage=USAGE)


BUDGETS = {
    "steps": (Limits(max_steps=3), FinishReason.MAX_STEPS, "steps", 3),
    "tool calls": (Limits(max_tool_calls=3), FinishReason.BUDGET, "tool_calls", 4),
    "input tokens": (Limits(max_input_tokens=3_000), FinishReason.BUDGET, "turn_input_tokens", 3),
    "output tokens": (Limits(max_output_tokens=300), FinishReason.BUDGET, "turn_output_tokens", 3),
    "dollars": (Limits(max_cost_usd=Decimal("0.30")), FinishReason.BUDGET, "turn_usd", 3),
}


@pytest.mark.parametrize("name", BUDGETS)
async def test_a_model_that_loops_is_stopped(name: str) -> None:
    limits, reason, limit, steps = BUDGETS[name]
    house = House([loops] * 10, limits=limits)
    events = await house.play(a_turn())
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is reason
    assert events[-1].limit == limit
    assert len(of_type(events, StepStarted)) == steps
    text = "".join(event.text for event in of_type(events, TextDelta))
    assert text == "Again. " * steps
    (record,) = house.workspace.records.values()
    assert record.finish_reason is reason
    assert "".join(message.text for message in record.messages).count("Again. ") == steps


async def test_a_session_that_has_spent_its_day_is_stopped() -> None:
    workspace = FakeWorkspace(spent_today_usd=Decimal("19.75"))
    house = House([loops] * 10, workspace=workspace)
    events = await house.play(a_turn())
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.BUDGET
    assert events[-1].limit == "session_day_usd"
    assert len(of_type(events, StepStarted)) == 3


async def test_a_turn_whose_time_is_over_is_stopped() -> None:
    clock = FixedClock()

    def takes_ten_seconds(request: ModelRequest) -> Events:
        clock.advance(timedelta(seconds=10))
        return loops(request)

    limits = Limits(wall_time_seconds=25.0)
    house = House([takes_ten_seconds] * 10, limits=limits, clock=clock)
    events = await house.play(a_turn())
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].finish_reason is FinishReason.BUDGET
    assert events[-1].limit == "wall_time"
    assert len(of_type(events, StepStarted)) == 3


async def test_calls_beyond_the_budget_are_denied_and_the_model_may_conclude() -> None:
    def asks_for_three(request: ModelRequest) -> Events:
        price = ("get_price", {"symbol": "BTC"})
        return calls(price, price, price, usage=USAGE)

    house = House([asks_for_three, loops], limits=Limits(max_tool_calls=2))
    events = await house.play(a_turn())
    denied = [
        event.result.outcome
        for event in of_type(events, ToolCallFinished)
        if isinstance(event.result.outcome, ToolDenial)
    ]
    assert [each.gate for each in denied] == ["budget", "budget"]
    last = house.model.requests[1]
    assert last.tool_choice.value == "none"
    assert "Conclude" in last.messages[-1].text
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].limit == "tool_calls"
