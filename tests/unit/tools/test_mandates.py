"""Mandates: what a strategy may do without being asked."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from minara_core.actions import ResolvedOrder, Side, TradingMode
from minara_core.denial_docs import denial_docs
from minara_core.errors import MinaraError
from minara_core.grant import Grant, GrantType
from minara_core.reasons import DenialReason
from minara_tools.domain.mandates import Mandate, MandateUse, covers, mandate_of
from minara_tools.domain.outcomes import ToolCallBlockedError
from support.actions import NOW
from support.tools.funds import a_cancel, a_limit_order, a_trade, a_transfer, a_withdrawal
from support.tools.mandates import A_GRANT, A_MANDATE


def asked(
    order: ResolvedOrder | None = None,
    *,
    mandate: Mandate = A_MANDATE,
    notional: str = "100",
    **changes: Any,
) -> None:
    known: dict[str, Any] = {
        "used": MandateUse(),
        "definition_hash": "ab" * 32,
        "now": NOW,
        "notional_usd": Decimal(notional),
    }
    covers(mandate, order or a_trade(), **(known | changes))


def test_what_the_person_allowed_is_covered() -> None:
    asked()
    asked(a_limit_order(price="2400"))
    asked(a_trade(Side.SELL))
    asked(a_cancel())
    asked(used=MandateUse(moved_today=Decimal(150), moved_in_all=Decimal(900), lost=Decimal(50)))


@pytest.mark.parametrize(
    ("limit", "arguments"),
    [
        ("max_per_move", {"notional": "100.01"}),
        ("max_per_move", {"notional": "0"}),
        ("max_per_day", {"used": MandateUse(moved_today=Decimal("150.01"))}),
        ("max_total", {"used": MandateUse(moved_in_all=Decimal("900.01"))}),
        ("max_loss", {"used": MandateUse(lost=Decimal("50.01"))}),
        ("definition", {"definition_hash": "cd" * 32}),
        ("end_time", {"now": NOW + timedelta(days=30)}),
        ("revoked", {"mandate": replace(A_MANDATE, revoke_time=NOW, revoke_reason="halted")}),
        ("instrument", {"order": a_trade(base="BTC")}),
        ("side", {"mandate": replace(A_MANDATE, sides=frozenset({Side.SELL}))}),
        ("account", {"order": a_trade(account="paper-2")}),
        ("mode", {"order": a_trade(mode=TradingMode.LIVE)}),
        ("leverage", {"order": a_trade(leverage=Decimal(2))}),
        ("kind", {"order": a_transfer()}),
        ("kind", {"order": a_withdrawal()}),
    ],
)
def test_everything_else_is_outside(limit: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolCallBlockedError) as refused:
        asked(**arguments)
    assert refused.value.reason is DenialReason.MANDATE_EXCEEDED
    assert refused.value.metadata["limit"] == limit
    assert denial_docs()[DenialReason.MANDATE_EXCEEDED].allows(refused.value.metadata)


def test_an_exit_uses_up_no_amount_and_still_stays_within_its_bounds() -> None:
    spent = MandateUse(moved_today=Decimal(999), moved_in_all=Decimal(999), lost=Decimal(999))
    asked(a_trade(Side.SELL), used=spent, notional="5000")
    with pytest.raises(ToolCallBlockedError):
        asked(a_trade(Side.SELL, "BTC"), used=spent)


@pytest.mark.parametrize(
    "grant",
    [replace(A_GRANT, grant_type=GrantType.CONFIRMATION), replace(A_GRANT, max_total="")],
)
def test_another_grant_is_no_mandate(grant: Grant) -> None:
    with pytest.raises(MinaraError):
        mandate_of(grant)
