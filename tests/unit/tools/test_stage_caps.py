"""The risk officer: limits, autopilot, locks and cooldowns."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from minara_core.actions import ResolvedOrder, Side
from minara_core.reasons import DenialReason
from minara_tools.domain.limits import STANDARD
from minara_tools.domain.stage_caps import caps, caps_when_sending
from support.actions import NOW
from support.tools.funds import (
    a_cancel,
    a_fund_context,
    a_trade,
    a_transfer,
    a_withdrawal,
    an_entry,
    denied,
    given,
)

USED_UP = a_fund_context(
    moved_usd=Decimal(10_000),
    moves=20,
    submits=10,
    pair_locks={"ETH/USDC": NOW + timedelta(hours=1)},
    is_autopilot_active=True,
)


def test_a_move_over_the_cap_is_denied_with_the_limit_and_how_to_change_it() -> None:
    refused = denied(DenialReason.NOTIONAL_EXCEEDS_MAX, caps, given(notional="8000"))
    assert refused.gate == "risk_officer"
    assert refused.metadata["limit"] == "max_move_usd"
    assert refused.metadata["value"] == "5000"
    assert refused.metadata["needed"] == "8000"
    for text in (refused.message, refused.metadata["change"]):
        assert "minara limits set max_move_usd=8000" in text
        assert "PATCH /v1/limits" in text


@pytest.mark.parametrize("notional", ["5000", "4999.99"])
def test_a_move_up_to_the_cap_passes(notional: str) -> None:
    assert caps(given(notional=notional)) == ()


def test_what_cannot_be_raised_so_far_says_so() -> None:
    refused = denied(DenialReason.NOTIONAL_EXCEEDS_MAX, caps, given(notional="2000000"))
    assert "1000000 at most" in refused.message
    assert "minara limits set" not in refused.message


@pytest.mark.parametrize(
    ("changes", "limit", "needed"),
    [
        ({"moved_usd": Decimal("9950.01")}, "max_day_usd", "10000.01"),
        ({"moves": 20}, "max_day_moves", "21"),
    ],
)
def test_a_days_caps_count_what_has_moved(
    changes: dict[str, Decimal | int], limit: str, needed: str
) -> None:
    funds = a_fund_context(**changes)
    refused = denied(DenialReason.DAILY_CAP_REACHED, caps, given(funds=funds))
    assert (refused.metadata["limit"], refused.metadata["needed"]) == (limit, needed)


def test_exactly_a_days_cap_passes() -> None:
    assert caps(given(funds=a_fund_context(moved_usd=Decimal(9_950), moves=19))) == ()


def test_a_worth_that_nobody_knows_is_over_every_cap() -> None:
    denied(DenialReason.PRICE_UNAVAILABLE, caps, given(notional="0"))


def test_leverage_over_the_persons_cap_is_denied() -> None:
    funds = a_fund_context(limits=replace(STANDARD, max_leverage=Decimal(3)))
    order = a_trade(leverage=Decimal("3.5"))
    refused = denied(DenialReason.LEVERAGE_EXCEEDS_CAP, caps, given(order, funds))
    assert "max_leverage=3.5" in refused.metadata["change"]


def test_submits_count_only_when_something_is_sent() -> None:
    judged = given(funds=a_fund_context(submits=10))
    assert caps(judged) == ()
    assert denied(DenialReason.RATE_LIMITED, caps_when_sending, judged).metadata["needed"] == "11"
    assert caps_when_sending(given(funds=a_fund_context(submits=9))) == ()


def test_a_first_transfer_to_a_recipient_has_a_cap_of_its_own() -> None:
    order = a_withdrawal()
    known = a_fund_context(addresses=(an_entry(used=False),))
    for funds in (a_fund_context(), known):
        denied(DenialReason.RECIPIENT_NEW_LIMIT, caps, given(order, funds, notional="100.01"))
        assert caps(given(order, funds, notional="100")) == ()
    used = a_fund_context(addresses=(an_entry(used=True),))
    assert caps(given(order, used, notional="100.01")) == ()


def test_another_memo_is_another_recipient() -> None:
    used = a_fund_context(addresses=(an_entry(used=True, memo="1"),))
    denied(
        DenialReason.RECIPIENT_NEW_LIMIT, caps, given(a_withdrawal(memo="2"), used, notional="101")
    )


def test_a_transfer_between_own_accounts_counts_and_is_no_new_recipient() -> None:
    assert caps(given(a_transfer(), notional="4000")) == ()
    denied(DenialReason.NOTIONAL_EXCEEDS_MAX, caps, given(a_transfer(), notional="6000"))


def test_people_are_denied_while_autopilot_trades_there_and_mandates_are_not() -> None:
    funds = a_fund_context(is_autopilot_active=True)
    refused = denied(DenialReason.AUTOPILOT_ACTIVE, caps, given(funds=funds))
    assert refused.metadata == {"account": "paper-1"}
    assert caps(given(funds=funds, by_mandate=True)) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pair_locks": {"ETH/USDC": NOW + timedelta(minutes=1)}}, DenialReason.PAIR_LOCKED),
        ({"cooldown_until": NOW + timedelta(minutes=1)}, DenialReason.COOLDOWN_ACTIVE),
    ],
)
def test_breakers_warn_people_and_bind_mandates(
    changes: dict[str, object], reason: DenialReason
) -> None:
    funds = a_fund_context(**changes)
    assert caps(given(funds=funds)) == (f"{reason}:12:01:00 UTC",)
    denied(reason, caps, given(funds=funds, by_mandate=True))


def test_breakers_end_with_their_time() -> None:
    over = a_fund_context(pair_locks={"ETH/USDC": NOW, "BTC/USDC": NOW + timedelta(hours=1)})
    assert caps(given(funds=over)) == ()


@pytest.mark.parametrize("order", [a_trade(Side.SELL), a_cancel()])
@pytest.mark.parametrize("by_mandate", [True, False])
def test_an_exit_passes_with_every_cap_used_up(order: ResolvedOrder, by_mandate: bool) -> None:
    judged = given(order, USED_UP, notional="9000000", by_mandate=by_mandate)
    assert caps(judged) == ()
    assert caps_when_sending(judged) == ()


def test_a_cancel_is_never_kept_back_by_what_is_used_up() -> None:
    for side in Side:
        judged = given(a_cancel(side), USED_UP, notional="0")
        assert caps(judged) == caps_when_sending(judged) == ()
