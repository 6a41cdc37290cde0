"""The schedules: their order, their warnings, and that an exit is always open."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_by
from hypothesis import strategies as st

from minara_core.actions import MoveKind, ResolvedOrder, Side
from minara_core.denial_docs import denial_docs
from minara_core.reasons import DenialReason
from minara_core.taxonomy import AssetClass
from minara_tools.domain.exits import is_exit
from minara_tools.domain.funds import StageInput
from minara_tools.domain.limits import SMALL, STANDARD, Limits
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.stages import ASKING, EXECUTING, pass_stages
from support.actions import NOW
from support.tools.funds import (
    a_cancel,
    a_fund_context,
    a_limit_order,
    a_preview,
    a_quote,
    a_trade,
    a_transfer,
    a_withdrawal,
    denied,
    funds_of,
    given,
)

KEPT_FOR_EXITS = {
    DenialReason.BALANCE_INSUFFICIENT,
    DenialReason.BALANCE_INSUFFICIENT_CUMULATIVE,
    DenialReason.QUANTITY_ROUNDS_TO_ZERO,
    DenialReason.QUANTITY_PRECISION,
    DenialReason.QUANTITY_BELOW_MIN,
    DenialReason.QUANTITY_ABOVE_MAX,
    DenialReason.PRICE_PRECISION,
    DenialReason.PRICE_OUT_OF_RANGE,
    DenialReason.MARKET_CLOSED,
    DenialReason.QUOTE_STALE,
    DenialReason.SLIPPAGE_EXCEEDED,
    DenialReason.TIER_EXCEEDS_CEILING,
}
"""What may still keep an exit back: nothing of caps, locks, cooldowns, autopilot, concentration."""


def asking(judged: StageInput) -> tuple[str, ...]:
    return pass_stages(ASKING, judged)


def executing(judged: StageInput) -> tuple[str, ...]:
    return pass_stages(EXECUTING, judged)


def refusal(schedule: Any, judged: StageInput) -> ToolCallBlockedError | None:
    try:
        pass_stages(schedule, judged)
    except ToolCallBlockedError as refused:
        return refused
    return None


def test_an_ordinary_purchase_passes_both_schedules() -> None:
    order = a_trade()
    assert asking(given(order)) == ()
    assert executing(given(order, fresh=a_quote(order))) == ()


def test_a_limit_is_named_before_a_balance() -> None:
    judged = given(a_trade(quantity="3.2"), notional="8000")
    poor = replace(judged, funds=a_fund_context(funds_of("USDC", "10")))
    denied(DenialReason.NOTIONAL_EXCEEDS_MAX, asking, poor)


def test_with_the_limits_raised_the_balance_is_what_is_missing() -> None:
    raised = Limits(max_move_usd=Decimal(1_000_000), max_day_usd=Decimal(1_000_000))
    judged = given(a_trade(quantity="60"), a_fund_context(limits=raised), notional="150000")
    denied(DenialReason.BALANCE_INSUFFICIENT, asking, judged)


def test_too_much_of_a_major_is_previewed_with_a_warning() -> None:
    thousand = a_fund_context(funds_of("USDC", "1000"), equity_usd=Decimal(1_000))
    judged = given(a_trade(base="BTC", quantity="0.007"), thousand, notional="700")
    assert asking(judged) == ("CONCENTRATED:BTC",)


def test_a_withdrawal_by_hand_is_judged_by_recipient_and_caps() -> None:
    funds = a_fund_context(funds_of("ETH", "1"))
    judged = given(a_withdrawal(), funds, is_manual=True)
    assert asking(judged) == ("RECIPIENT_NEW",)
    denied(DenialReason.MANUAL_ONLY, asking, replace(judged, is_manual=False))
    assert executing(judged) == ("RECIPIENT_NEW",)


def test_each_warning_is_told_once() -> None:
    funds = a_fund_context(funds_of("USDC", "1000", usd_price=Decimal("0.98")))
    assert pass_stages((*ASKING, *ASKING), given(funds=funds)) == ("STABLECOIN_OFF_PEG:USDC",)


def test_with_everything_used_up_selling_out_works() -> None:
    worst = a_fund_context(
        funds_of("ETH", "1000", is_listed=True),
        equity_usd=None,
        limits=SMALL,
        moved_usd=Decimal(10**9),
        moves=10**6,
        submits=10**6,
        pair_locks={"ETH/USDC": NOW + timedelta(days=1)},
        cooldown_until=NOW + timedelta(days=1),
        is_autopilot_active=True,
    )
    order = a_trade(Side.SELL, quantity="1000")
    judged = given(order, worst, notional="2500000")
    assert asking(judged) == ()
    impact = a_quote(order, price_impact=Decimal("0.5"))
    assert executing(replace(judged, fresh=impact)) == ()


_MONEY = st.sampled_from([Decimal(t) for t in ("0", "0.0001", "49.99", "250", "7000", "2000000")])
_PRICE = st.none() | st.sampled_from([Decimal(t) for t in ("0.2", "1", "0.97", "2500", "99999.9")])
_QUANTITIES = st.sampled_from(["0", "0.00001", "0.0001", "0.02", "1.5", "999"])
_KINDS = st.none() | st.sampled_from(AssetClass)
_PAIRS = st.sampled_from([("ETH", "USDC"), ("DOGE", "USDC"), ("SOL", "BTC"), ("USDC", "BTC")])
_LATER = st.sampled_from([None, NOW, NOW + timedelta(hours=1)])
_FAST = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def orders(draw: st.DrawFn) -> ResolvedOrder:
    base, quote = draw(_PAIRS)
    side, quantity = draw(st.sampled_from(Side)), draw(_QUANTITIES)
    match draw(st.integers(0, 4)):
        case 0:
            return a_trade(side, base, quote, quantity=quantity)
        case 1:
            return a_limit_order(side, price="2500", base=base, quote=quote, quantity=quantity)
        case 2:
            return a_cancel(side)
        case 3:
            return a_transfer(draw(st.sampled_from(["paper-2", "paper-9"])))
        case _:
            return a_withdrawal(chain=draw(st.sampled_from(["", "ethereum", "tron"])))


@st.composite
def exits(draw: st.DrawFn) -> ResolvedOrder:
    base, quantity = draw(st.sampled_from(["ETH", "DOGE", "SOL"])), draw(_QUANTITIES)
    match draw(st.integers(0, 2)):
        case 0:
            return a_trade(Side.SELL, base, quantity=quantity)
        case 1:
            return a_limit_order(Side.SELL, price="2500", base=base, quantity=quantity)
        case _:
            return a_cancel(Side.BUY)


@st.composite
def moves(draw: st.DrawFn, of: st.SearchStrategy[ResolvedOrder]) -> StageInput:
    """Any move of any person: rich or poor, with prices or without, capped and locked."""
    order = draw(of)
    instrument = order.instrument
    assets = [
        funds_of(
            asset,
            str(draw(_MONEY)),
            held=str(draw(_MONEY)),
            usd_price=draw(_PRICE),
            asset_class=draw(_KINDS),
            is_listed=draw(st.booleans()),
        )
        for asset in {instrument.base, instrument.quote, order.max_spend_asset} - {""}
    ]
    locked = draw(_LATER)
    changes: dict[str, Any] = {
        "equity_usd": draw(st.none() | _MONEY),
        "limits": draw(st.sampled_from([SMALL, STANDARD])),
        "moved_usd": draw(_MONEY),
        "moves": draw(st.sampled_from([0, 9, 30])),
        "submits": draw(st.sampled_from([0, 30])),
        "pending_spends": dict.fromkeys([instrument.base, instrument.quote], draw(_MONEY)),
        "buying_usd": {instrument.base: draw(_MONEY)},
        "pair_locks": {} if locked is None else {instrument.symbol: locked},
        "cooldown_until": draw(_LATER),
        "is_autopilot_active": draw(st.booleans()),
    }
    if draw(st.integers(0, 4)) == 0:
        changes["listings"] = {}
    price = draw(st.sampled_from(["1", "2474", "2500", "2526"]))
    return given(
        order,
        a_fund_context(*assets, **changes),
        preview=a_preview(str(draw(_MONEY))),
        fresh=draw(st.sampled_from([None, a_quote(order, price=price)])),
        is_manual=draw(st.booleans()),
        by_mandate=draw(st.booleans()),
    )


@pytest.mark.parametrize("schedule", [ASKING, EXECUTING])
@_FAST
@given_by(judged=moves(exits()))
def test_no_cap_lock_or_concentration_ever_keeps_an_exit_back(
    schedule: Any, judged: StageInput
) -> None:
    assert is_exit(judged.order)
    refused = refusal(schedule, judged)
    assert refused is None or refused.reason in KEPT_FOR_EXITS


@pytest.mark.parametrize("schedule", [ASKING, EXECUTING])
@_FAST
@given_by(judged=moves(orders()))
def test_every_refusal_is_documented_and_nothing_else_is_raised(
    schedule: Any, judged: StageInput
) -> None:
    refused = refusal(schedule, judged)
    if refused is not None:
        assert denial_docs()[refused.reason].allows(refused.metadata), refused.reason
        assert refused.message


@_FAST
@given_by(judged=moves(orders()))
def test_what_may_be_sent_is_covered_by_what_is_free(judged: StageInput) -> None:
    order = judged.order
    if refusal(EXECUTING, judged) is None and order.kind is not MoveKind.CANCEL:
        assert judged.funds.assets[order.max_spend_asset].free >= order.max_spend
