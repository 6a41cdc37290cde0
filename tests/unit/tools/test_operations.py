"""The operation's state machine: what each step makes of it, and what proves absence."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import MoveKind, PlacedState, Side
from minara_tools.domain import operations
from minara_tools.domain.operations import OperationEnd, OperationState
from support.actions import NOW, an_order
from support.tools.operations import an_answer, an_operation, held, sent

STATES = list(OperationState)
LATE = NOW + timedelta(seconds=36)


@given(st.lists(st.sampled_from(STATES), max_size=8))
def test_no_walk_leaves_the_machine(path: list[OperationState]) -> None:
    operation = an_operation()
    for state in path:
        try:
            after = operations.moved(operation, state, NOW)
        except ValueError:
            assert state not in operations.TRANSITIONS.get(operation.state, frozenset())
            continue
        assert not operation.state.is_final
        operation = after


@pytest.mark.parametrize("state", STATES)
def test_only_final_states_lead_nowhere(state: OperationState) -> None:
    assert bool(operations.TRANSITIONS.get(state)) is not state.is_final


def test_what_was_sent_is_void_only_when_it_lapsed_or_is_proven_absent() -> None:
    assert OperationState.VOIDED not in operations.TRANSITIONS[OperationState.OPEN]
    doubted = operations.uncertain(sent(), "x", NOW)
    assert not operations.is_proven_absent(doubted)


def test_a_hold_covers_the_most_a_move_may_take() -> None:
    assert operations.hold_of(an_order()) == ("USDC", Decimal(50))
    sale = replace(
        an_order(Side.SELL), max_spend=Decimal("0.02"), max_spend_asset="ETH", max_fee_asset="ETH"
    )
    assert operations.hold_of(sale) == ("ETH", Decimal("0.07"))
    assert operations.hold_of(replace(an_order(), kind=MoveKind.CANCEL)) == ("", Decimal(0))
    sending = replace(an_order(), kind=MoveKind.WITHDRAWAL)
    assert operations.hold_of(sending) == ("USDC", Decimal(50))


def test_an_order_is_over_only_when_all_its_fills_are_booked() -> None:
    operation = sent()
    waiting = operations.seen(operation, an_answer(operation), NOW)
    assert waiting.state is OperationState.OPEN
    booked = replace(waiting, filled_quantity=Decimal("0.02"))
    closed = operations.seen(booked, an_answer(operation), NOW)
    assert (closed.state, closed.end) == (OperationState.CLOSED, OperationEnd.FILLED)


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (PlacedState.CANCELLED, OperationEnd.CANCELLED),
        (PlacedState.EXPIRED, OperationEnd.EXPIRED),
        (PlacedState.REJECTED, OperationEnd.REJECTED),
    ],
)
def test_an_unfilled_order_ends_as_the_venue_says(state: PlacedState, end: OperationEnd) -> None:
    operation = sent()
    closed = operations.seen(operation, an_answer(operation, state=state, filled="0"), NOW)
    assert (closed.state, closed.end) == (OperationState.CLOSED, end)
    assert closed.moved_usd == 0


def test_absence_takes_three_looks_after_the_request_is_over() -> None:
    doubted = operations.uncertain(sent(), "x", NOW)
    for _ in range(9):
        doubted = operations.absent(doubted, NOW + timedelta(seconds=34))
    assert doubted.absent_polls == 0
    for number in range(3):
        assert not operations.is_proven_absent(doubted)
        now = LATE + number * operations.POLL_AT_LEAST_EVERY
        doubted = operations.absent(operations.absent(doubted, now), now)
        assert doubted.absent_polls == number + 1
    assert operations.is_proven_absent(doubted)


def test_a_venue_without_validity_never_proves_absence() -> None:
    endless = operations.sent(held(), sign_time=NOW, not_after=None, now=NOW)
    doubted = operations.uncertain(endless, "x", NOW)
    for day in range(5):
        doubted = operations.absent(doubted, NOW + timedelta(days=day))
    assert not operations.is_proven_absent(doubted)


def test_being_seen_begins_the_proof_anew() -> None:
    doubted = operations.absent(operations.uncertain(sent(), "x", NOW), LATE)
    assert doubted.absent_polls == 1
    seen = operations.seen(doubted, an_answer(doubted), LATE)
    assert seen.absent_polls == 0


def test_a_person_is_needed_after_a_day_and_not_before() -> None:
    doubted = operations.uncertain(sent(), "x", NOW)
    assert not operations.needs_person(doubted, NOW + timedelta(hours=23))
    assert operations.needs_person(doubted, NOW + timedelta(hours=24))
    assert not operations.needs_person(sent(), NOW + timedelta(days=9))


def test_a_partly_filled_order_counts_for_what_it_moved() -> None:
    operation = replace(sent(), filled_quantity=Decimal("0.005"))
    assert operation.moved_usd == 50
    closed = operations.seen(
        operation, an_answer(operation, state=PlacedState.CANCELLED, filled="0.005"), NOW
    )
    assert closed.moved_usd == Decimal("12.5")
