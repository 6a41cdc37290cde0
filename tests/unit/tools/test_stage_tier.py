"""The tier of one exact move."""

from decimal import Decimal

import pytest

from minara_core.actions import MarginMode, ResolvedOrder, Side
from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_tools.domain.stage_tier import move_tier, tier_within_ceiling
from support.tools.funds import (
    a_cancel,
    a_fund_context,
    a_trade,
    a_transfer,
    a_withdrawal,
    denied,
    given,
)

ONCE, ALWAYS = PermissionTier.CONFIRM_ONCE, PermissionTier.ALWAYS_CONFIRM


@pytest.mark.parametrize(
    ("order", "notional", "equity", "tier"),
    [
        (a_trade(), "100", "2000", ONCE),
        (a_trade(), "100.01", "100000", ALWAYS),
        (a_trade(), "100", "1999.99", ALWAYS),
        (a_trade(), "0", "2000", ALWAYS),
        (a_trade(), "1", None, ALWAYS),
        (a_trade(), "1", "0", ALWAYS),
        (a_trade(Side.SELL), "100", "2000", ONCE),
        (a_trade(margin_mode=MarginMode.ISOLATED), "1", "2000", ALWAYS),
        (a_trade(leverage=Decimal(2)), "1", "2000", ALWAYS),
        (a_cancel(Side.BUY), "0", "2000", ONCE),
        (a_cancel(Side.SELL), "0", "2000", ALWAYS),
        (a_transfer(), "1", "2000", ALWAYS),
        (a_withdrawal(), "1", "2000", PermissionTier.MANUAL_ONLY),
    ],
)
def test_small_moves_are_lighter_and_doubt_is_not(
    order: ResolvedOrder, notional: str, equity: str | None, tier: PermissionTier
) -> None:
    funds = a_fund_context(equity_usd=None if equity is None else Decimal(equity))
    assert move_tier(given(order, funds, notional=notional)) is tier


def test_a_withdrawal_is_a_persons_alone() -> None:
    denied(DenialReason.MANUAL_ONLY, tier_within_ceiling, given(a_withdrawal()))
    assert tier_within_ceiling(given(a_withdrawal(), is_manual=True)) == ()


def test_a_turn_may_use_no_tier_above_its_ceiling() -> None:
    refused = denied(
        DenialReason.TIER_EXCEEDS_CEILING, tier_within_ceiling, given(notional="101", ceiling=ONCE)
    )
    assert refused.metadata == {"tier": "ALWAYS_CONFIRM", "ceiling": "CONFIRM_ONCE"}
    assert tier_within_ceiling(given(notional="100", ceiling=ONCE)) == ()
