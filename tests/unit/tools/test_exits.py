"""Exits: what only reduces exposure, and what trading states keep back."""

import pytest

from minara_core.actions import MarginMode, ResolvedOrder, Side
from minara_core.taxonomy import TradingState
from minara_tools.domain.exits import forbids, is_exit
from support.tools.funds import a_cancel, a_limit_order, a_trade, a_transfer, a_withdrawal

BUY, SELL = Side.BUY, Side.SELL


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (a_trade(SELL), True),
        (a_limit_order(SELL, price="3000"), True),
        (a_trade(SELL, "ETH", "BTC"), False),
        (a_trade(BUY), False),
        (a_trade(BUY, reduce_only=True), False),
        (a_trade(BUY, margin_mode=MarginMode.CROSS, reduce_only=True), True),
        (a_trade(SELL, margin_mode=MarginMode.CROSS), False),
        (a_trade(SELL, leverage=a_trade().quantity + 3), False),
        (a_trade(BUY, "USDC", "ETH"), True),
        (a_trade(BUY, "USDC", "USDC"), False),
        (a_cancel(BUY), True),
        (a_cancel(SELL), False),
        (a_transfer(), False),
        (a_withdrawal(), False),
    ],
    ids=lambda value: f"{value.kind}-{value.side}" if isinstance(value, ResolvedOrder) else None,
)
def test_an_exit_only_reduces_exposure(order: ResolvedOrder, expected: bool) -> None:
    assert is_exit(order) is expected


@pytest.mark.parametrize(
    ("state", "order", "by_person", "expected"),
    [
        (TradingState.ACTIVE, a_trade(BUY), True, False),
        (TradingState.REDUCING, a_trade(BUY), True, True),
        (TradingState.REDUCING, a_trade(SELL), True, False),
        (TradingState.REDUCING, a_trade(SELL), False, False),
        (TradingState.REDUCING, a_cancel(SELL), True, False),
        (TradingState.REDUCING, a_cancel(SELL), False, True),
        (TradingState.REDUCING, a_transfer(), True, True),
        (TradingState.HALTED, a_trade(BUY), True, True),
        (TradingState.HALTED, a_trade(SELL), True, False),
        (TradingState.HALTED, a_trade(SELL), False, True),
        (TradingState.HALTED, a_cancel(BUY), False, False),
        (TradingState.HALTED, a_cancel(SELL), True, False),
        (TradingState.HALTED, a_cancel(SELL), False, True),
        (TradingState.HALTED, a_withdrawal(), True, True),
    ],
)
def test_a_person_can_always_get_out(
    state: TradingState, order: ResolvedOrder, by_person: bool, expected: bool
) -> None:
    assert forbids(state, order, by_person=by_person) is expected
