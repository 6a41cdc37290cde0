"""What a turn may spend is judged before each call, and never passed by failing ones."""

from decimal import Decimal

import pytest

from minara_core.events import FinishReason, TokenUsage
from minara_orchestrator.domain.turn import Budget, Limits


def free(input_tokens: int, output_tokens: int) -> Decimal | None:
    return None


def priced(input_tokens: int, output_tokens: int) -> Decimal | None:
    """Two dollars a million in, ten out."""
    return Decimal(2 * input_tokens + 10 * output_tokens) / 1_000_000


def a_budget(limits: Limits | None = None, *, used: TokenUsage | None = None) -> Budget:
    budget = Budget(limits or Limits(), 0.0)
    budget.charge(used or TokenUsage())
    return budget


def test_a_call_may_say_what_is_left_of_the_turn_and_of_its_step() -> None:
    budget = a_budget()
    assert budget.output_allowance(1_000, free) == 8_192
    budget.charge(TokenUsage(output_tokens=30_000))
    assert budget.output_allowance(1_000, free) == 2_000


@pytest.mark.parametrize("used", [900, 901, 5_000])
def test_nothing_may_be_said_once_all_is_used_however_much_over_it(used: int) -> None:
    budget = a_budget(Limits(max_output_tokens=900), used=TokenUsage(output_tokens=used))
    assert budget.output_allowance(1_000, free) == 0
    assert budget.exhausted_by(1.0) is FinishReason.BUDGET


def test_the_last_few_tokens_may_still_be_used() -> None:
    budget = a_budget(Limits(max_output_tokens=900), used=TokenUsage(output_tokens=880))
    assert budget.output_allowance(1_000, free) == 20


def test_input_that_would_pass_the_limit_is_not_sent() -> None:
    budget = a_budget(used=TokenUsage(input_tokens=599_000))
    assert budget.output_allowance(1_000, free) > 0
    assert budget.output_allowance(1_001, free) == 0


def test_dollars_left_bound_what_a_call_may_say_and_whether_it_is_made() -> None:
    budget = a_budget(Limits(max_cost_usd=Decimal("0.03")))
    assert budget.output_allowance(10_000, priced) == 1_000
    assert budget.output_allowance(14_900, priced) == 0
    assert budget.output_allowance(20_000, priced) == 0


def test_the_sessions_day_bounds_the_turn_too() -> None:
    budget = a_budget()
    budget.session_spent_usd = Decimal("19.98")
    assert budget.output_allowance(5_000, priced) == 1_000
    budget.session_spent_usd = Decimal(20)
    assert budget.exhausted_by(1.0) is FinishReason.BUDGET


def test_a_price_that_is_not_known_binds_nothing_in_dollars() -> None:
    budget = a_budget(Limits(max_cost_usd=Decimal("0.001")))
    assert budget.output_allowance(100_000, free) == 8_192


def test_a_turns_first_call_leaves_room_for_some_more() -> None:
    assert a_budget().opening_tokens(free) == 150_000
    dear = Limits(max_cost_usd=Decimal("0.4"))
    assert a_budget(dear).opening_tokens(priced) == 50_000


def test_wall_time_runs_out_and_never_below_zero() -> None:
    budget = a_budget(Limits(wall_time_seconds=10))
    assert budget.seconds_left(4.0) == 6.0
    assert budget.seconds_left(11.0) == 0.0
    assert budget.exhausted_by(10.0) is FinishReason.BUDGET


@pytest.mark.parametrize("used", [4, 6])
def test_no_call_is_granted_once_all_are_used_however_much_over_it(used: int) -> None:
    budget = a_budget(Limits(max_tool_calls=4))
    budget.tool_calls = used
    assert budget.take_tool_calls(3) == 0
    assert budget.tool_calls == used
    assert budget.has_no_calls_left


def test_sub_agents_have_half_of_the_calls_left_which_may_be_none() -> None:
    budget = a_budget(Limits(max_tool_calls=9))
    assert budget.share(2, 6, 0.0).take_tool_calls(9) == 2
    budget.take_tool_calls(8)
    assert budget.share(1, 6, 0.0).take_tool_calls(9) == 0


def test_what_sub_agents_have_used_is_not_granted_again() -> None:
    budget = a_budget(Limits(max_tool_calls=8))
    share = budget.share(1, 6, 0.0)
    share.take_tool_calls(4)
    budget.charge_share(share)
    assert budget.take_tool_calls(9) == 4
