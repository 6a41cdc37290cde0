"""Slippage at execution: the venue's quote of now against what the person was shown."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from minara_core.actions import ResolvedOrder, Side
from minara_core.reasons import DenialReason
from minara_tools.domain.stage_slippage import impact_limit, slippage, slippage_bound
from support.actions import NOW
from support.tools.funds import (
    a_cancel,
    a_limit_order,
    a_preview,
    a_quote,
    a_trade,
    a_transfer,
    denied,
    given,
)


def quoted(order: ResolvedOrder, price: str = "2500", **changes: Any) -> Any:
    """The preview showed 2500 with a bound of 1 %."""
    return given(order, fresh=a_quote(order, price=price, **changes))


@pytest.mark.parametrize(
    ("side", "price"),
    [(Side.BUY, "2525"), (Side.BUY, "1"), (Side.SELL, "2475"), (Side.SELL, "9999")],
)
def test_a_price_within_the_bound_or_better_passes(side: Side, price: str) -> None:
    assert slippage(quoted(a_trade(side), price)) == ()


@pytest.mark.parametrize(("side", "price"), [(Side.BUY, "2525.01"), (Side.SELL, "2474.99")])
def test_a_price_past_the_bound_voids(side: Side, price: str) -> None:
    refused = denied(DenialReason.SLIPPAGE_EXCEEDED, slippage, quoted(a_trade(side), price))
    assert refused.gate == "slippage"
    assert refused.metadata == {"previewed": "2500", "price": price, "bound": "0.01"}


def test_the_bound_is_the_previews_own() -> None:
    order = a_trade()
    wide = a_preview(slippage_bound=Decimal("0.1"))
    judged = given(order, preview=wide, fresh=a_quote(order, price="2750"))
    assert slippage(judged) == ()
    assert slippage(replace(judged, fresh=a_quote(order, price="2725"))) == ()


@pytest.mark.parametrize("seconds", [5.001, 60, -5.001])
def test_a_quote_of_another_time_is_unusable(seconds: float) -> None:
    judged = quoted(a_trade(), quote_time=NOW - timedelta(seconds=seconds))
    denied(DenialReason.QUOTE_STALE, slippage, judged)


def test_a_quote_of_five_seconds_is_usable() -> None:
    assert slippage(quoted(a_trade(), quote_time=NOW - timedelta(seconds=5))) == ()


@pytest.mark.parametrize(
    "fresh",
    [None, a_quote(a_trade(Side.SELL)), a_quote(a_trade(base="BTC"), price="2500")],
)
def test_without_a_quote_of_this_order_nothing_is_sent(fresh: Any) -> None:
    denied(DenialReason.QUOTE_STALE, slippage, given(fresh=fresh))


@pytest.mark.parametrize(("base", "limit"), [("ETH", "0.02"), ("SOL", "0.03"), ("DOGE", "0.05")])
def test_the_impact_of_an_orders_own_size_is_bounded_by_kind(base: str, limit: str) -> None:
    order = a_trade(base=base)
    assert slippage(quoted(order, price_impact=Decimal(limit))) == ()
    over = Decimal(limit) + Decimal("0.0001")
    refused = denied(DenialReason.PRICE_IMPACT_EXCEEDED, slippage, quoted(order, price_impact=over))
    assert refused.metadata["limit"] == limit


def test_a_book_that_holds_less_than_the_order_is_too_thin() -> None:
    denied(
        DenialReason.PRICE_IMPACT_EXCEEDED, slippage, quoted(a_trade(), quantity=Decimal("0.01"))
    )


def test_an_exit_has_its_bound_and_nothing_else() -> None:
    order = a_trade(Side.SELL)
    assert slippage(quoted(order, price_impact=Decimal("0.9"))) == ()
    assert slippage(quoted(order, quantity=Decimal("0.01"))) == ("BOOK_TOO_THIN",)
    denied(DenialReason.SLIPPAGE_EXCEEDED, slippage, quoted(order, "2400"))


@pytest.mark.parametrize("order", [a_limit_order(price="2400"), a_cancel(), a_transfer()])
def test_what_rests_or_is_no_trade_has_no_slippage(order: ResolvedOrder) -> None:
    assert slippage(given(order, fresh=None)) == ()


@pytest.mark.parametrize(
    ("base", "side", "bound", "impact"),
    [
        ("BTC", Side.BUY, "0.01", "0.02"),
        ("SOL", Side.BUY, "0.03", "0.03"),
        ("DOGE", Side.BUY, "0.05", "0.05"),
        ("NOBODYKNOWS", Side.BUY, "0.01", "0.02"),
        ("DOGE", Side.SELL, "0.01", "0.05"),
    ],
)
def test_bounds_by_kind(base: str, side: Side, bound: str, impact: str) -> None:
    assert slippage_bound(base, side) == Decimal(bound)
    assert impact_limit(base) == Decimal(impact)
