"""The pending action's state machine and its hash."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import (
    ActionOutcome,
    ActionState,
    MarginMode,
    PlacedState,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.errors import Conflict
from minara_core.ids import PendingActionId, RandomIds, SessionId, TurnId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import TradingState
from minara_tools.domain import approvals
from minara_tools.domain.action_json import (
    action_hash,
    canonical_json,
    client_order_id,
    order_from_json,
    order_to_json,
    outcome_from_json,
    outcome_to_json,
    preview_from_json,
    preview_to_json,
    read_json,
)
from minara_tools.domain.approvals import Configuration
from minara_tools.domain.outcomes import ToolCallBlockedError
from support.actions import NOW, an_action, an_order
from support.tools.entries import a_preview
from support.tools.venue import placed

RUNNING = Configuration(
    mode=TradingMode.PAPER,
    venue="paper",
    accounts=frozenset({"paper-1"}),
    symbols=frozenset({"ETH/USDC"}),
    can_execute=True,
)
STATES = list(ActionState)


@given(st.lists(st.sampled_from(STATES), max_size=8))
def test_no_walk_leaves_the_machine_and_final_states_stay(path: list[ActionState]) -> None:
    action = an_action()
    for state in path:
        try:
            moved = approvals.moved(action, ActionOutcome(state=state, message=""))
        except ValueError:
            allowed = approvals.TRANSITIONS.get(action.state, frozenset())
            assert state not in allowed
            continue
        assert not action.state.is_final or action.state is ActionState.DONE
        assert moved.state is state
        assert moved.order == action.order
        assert moved.action_hash == action.action_hash
        action = moved


@pytest.mark.parametrize("state", STATES)
def test_only_final_states_lead_nowhere_else(state: ActionState) -> None:
    elsewhere = approvals.TRANSITIONS.get(state, frozenset()) - {state}
    # A resting order is done, and may be rejected or lost by the venue later.
    lost = (
        {ActionState.UNCERTAIN, ActionState.FAILED}
        if state is ActionState.DONE
        else set[ActionState]()
    )
    assert bool(elsewhere - lost) is not state.is_final


@pytest.mark.parametrize("state", STATES)
def test_a_confirmation_is_taken_once_and_repeated_only_as_itself(state: ActionState) -> None:
    action = an_action(state=state)
    is_same = state is ActionState.PENDING or state in approvals.CONFIRMED_STATES
    if is_same:
        approvals.refuse_unless_open(action, action_hash=action.action_hash, confirms=True)
        return
    with pytest.raises(Conflict) as caught:
        approvals.refuse_unless_open(action, action_hash=action.action_hash, confirms=True)
    expected = (
        ErrorReason.CONFIRMATION_EXPIRED
        if state is ActionState.EXPIRED
        else ErrorReason.CONFIRMATION_USED
    )
    assert caught.value.reason is expected


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("confirms", [True, False])
def test_another_hash_is_never_taken(state: ActionState, confirms: bool) -> None:
    with pytest.raises(Conflict) as caught:
        approvals.refuse_unless_open(
            an_action(state=state), action_hash="0" * 64, confirms=confirms
        )
    assert caught.value.reason is ErrorReason.CONFIRMATION_MISMATCH


@pytest.mark.parametrize(
    "running",
    [
        replace(RUNNING, mode=TradingMode.LIVE),
        replace(RUNNING, venue="elsewhere"),
        replace(RUNNING, accounts=frozenset({"paper-2"})),
        replace(RUNNING, symbols=frozenset[str]()),
        replace(RUNNING, can_execute=False),
    ],
)
def test_what_was_previewed_elsewhere_is_refused(running: Configuration) -> None:
    with pytest.raises(ToolCallBlockedError) as blocked:
        approvals.check_still_possible(an_action(), TradingState.ACTIVE, running)
    assert blocked.value.reason is DenialReason.CONFIRMATION_MISMATCH


def test_exits_pass_while_reducing_and_a_person_may_close_while_halted() -> None:
    def passes(side: Side, state: TradingState) -> bool:
        try:
            approvals.check_still_possible(an_action(side=side), state, RUNNING)
        except ToolCallBlockedError:
            return False
        return True

    assert passes(Side.BUY, TradingState.ACTIVE)
    for state in (TradingState.REDUCING, TradingState.HALTED):
        assert passes(Side.SELL, state)
        assert not passes(Side.BUY, state)


def test_an_action_expires_at_its_time_and_not_before() -> None:
    action = an_action()
    assert not approvals.has_expired(action, action.expire_time - timedelta(microseconds=1))
    assert approvals.has_expired(action, action.expire_time)
    assert not approvals.has_expired(an_action(state=ActionState.DONE), action.expire_time)


def test_only_the_same_move_of_a_later_message_in_the_same_session_is_superseded() -> None:
    old = an_action("old")
    new = replace(an_action("new"), turn_id=TurnId("turn-2"))

    def takes(candidate: object = new, *, later: bool = True) -> bool:
        assert isinstance(candidate, type(new))
        return approvals.takes_place_of(candidate, old, by_later_message=later)

    assert takes()
    assert not takes(later=False)
    assert not takes(replace(new, turn_id=old.turn_id))
    assert not takes(replace(new, session_id=SessionId("session-2")))
    assert not takes(replace(new, tool_name="sell_token"))
    assert not takes(replace(new, order=replace(new.order, account="other")))
    assert not takes(replace(new, order=replace(new.order, recipient="0xabc")))
    assert not takes(replace(new, order=an_order(Side.SELL)))


def test_an_uncertain_move_makes_the_next_of_its_kind_a_possible_duplicate() -> None:
    uncertain = an_action("old", state=ActionState.UNCERTAIN)
    other_size = replace(an_order(), quantity=Decimal(9), max_spend=Decimal(9))
    new = replace(an_action("new"), order=other_size)
    assert approvals.repeats(new, [uncertain], NOW)
    assert not approvals.repeats(replace(new, order=an_order(Side.SELL)), [uncertain], NOW)


def test_the_hash_covers_every_field_of_order_and_preview() -> None:
    order, preview = an_order(), a_preview()
    base = action_hash(order, preview)
    assert re.fullmatch(r"[0-9a-f]{64}", base)
    changed = [
        replace(order, mode=TradingMode.LIVE),
        replace(order, venue="x"),
        replace(order, account="x"),
        replace(order, instrument=replace(order.instrument, address="0x1")),
        replace(order, side=Side.SELL),
        replace(order, quantity=Decimal("0.021")),
        replace(order, limit_price=Decimal(1)),
        replace(order, time_in_force=TimeInForce.GTC),
        replace(order, reduce_only=True),
        replace(order, leverage=Decimal(2)),
        replace(order, margin_mode=MarginMode.CROSS),
        replace(order, max_spend=Decimal("50.01")),
        replace(order, max_spend_asset="USDT"),
        replace(order, min_receipt=Decimal(0)),
        replace(order, max_fee=Decimal(1)),
        replace(order, recipient="0xabc"),
    ]
    hashes = {action_hash(one, preview) for one in changed}
    hashes |= {
        action_hash(order, replace(preview, price=Decimal(1))),
        action_hash(order, replace(preview, warnings=("careful",))),
        action_hash(order, replace(preview, source="x")),
        action_hash(order, replace(preview, quote_time=NOW + timedelta(seconds=1))),
    }
    assert base not in hashes
    assert len(hashes) == len(changed) + 4


def test_equal_amounts_hash_alike_however_they_are_written() -> None:
    one = replace(an_order(), quantity=Decimal("0.020"), max_spend=Decimal("5E+1"))
    assert action_hash(one, a_preview()) == action_hash(an_order(), a_preview())


_AMOUNTS = st.decimals(min_value=0, max_value=10**20, allow_nan=False, places=18)


@given(_AMOUNTS, _AMOUNTS)
def test_orders_and_previews_come_back_from_json_unchanged(one: Decimal, other: Decimal) -> None:
    order = replace(an_order(), quantity=one, max_spend=other)
    preview = replace(a_preview(), price=one, warnings=("注意", "a\nb"))
    again = order_from_json(read_json(canonical_json(order_to_json(order))))
    shown = preview_from_json(read_json(canonical_json(preview_to_json(preview))))
    assert (again, shown) == (order, preview)
    assert action_hash(again, shown) == action_hash(order, preview)


@pytest.mark.parametrize("state", PlacedState)
def test_outcomes_come_back_from_json_unchanged(state: PlacedState) -> None:
    started = approvals.executing(replace(an_action(), outcome=None), NOW)
    settled = approvals.settled(started, placed(started.order, "ab" * 16, state=state), NOW)
    assert settled.outcome is not None
    assert outcome_from_json(read_json(canonical_json(outcome_to_json(settled.outcome)))) == (
        settled.outcome
    )


def test_a_client_order_id_is_the_actions_id_and_always_the_same() -> None:
    action_id = PendingActionId(RandomIds().new())
    assert client_order_id(action_id) == action_id.replace("-", "")
    assert re.fullmatch(r"[0-9a-f]{32}", client_order_id(PendingActionId("odd")))
    assert client_order_id(PendingActionId("odd")) == client_order_id(PendingActionId("odd"))
