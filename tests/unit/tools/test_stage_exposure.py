"""Exposure: balance, the venue's limits, sanity of the price, concentration."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from minara_core.actions import OrderType, QuantityUnit, ResolvedOrder, Side
from minara_core.reasons import DenialReason
from minara_core.taxonomy import AssetClass
from minara_tools.domain.funds import UncertainMove
from minara_tools.domain.stage_exposure import exposure, exposure_when_sending
from support.tools.funds import (
    a_cancel,
    a_fund_context,
    a_limit_order,
    a_trade,
    a_transfer,
    a_withdrawal,
    denied,
    funds_of,
    given,
    rules_of,
)

SELL = Side.SELL


def with_rules(**changes: Any) -> Any:
    return a_fund_context(listings={"ETH/USDC": rules_of("ETH", **changes)})


def test_a_small_purchase_passes_without_a_warning() -> None:
    assert exposure(given()) == ()
    assert exposure_when_sending(given()) == ()


def test_a_purchase_needs_its_spend_free() -> None:
    funds = a_fund_context(funds_of("USDC", "49.99", held="1000"))
    refused = denied(DenialReason.BALANCE_INSUFFICIENT, exposure, given(funds=funds))
    assert refused.metadata == {"asset": "USDC", "available": "49.99", "needed": "50"}
    denied(DenialReason.BALANCE_INSUFFICIENT, exposure_when_sending, given(funds=funds))


def test_exactly_what_is_free_can_be_spent() -> None:
    assert exposure(given(funds=a_fund_context(funds_of("USDC", "50")))) == ()


def test_a_withdrawal_needs_its_fee_too() -> None:
    order = a_withdrawal()
    short = a_fund_context(funds_of("ETH", "0.0209"))
    refused = denied(DenialReason.BALANCE_INSUFFICIENT, exposure, given(order, short))
    assert refused.metadata["needed"] == "0.021"
    assert exposure(given(order, a_fund_context(funds_of("ETH", "0.021")))) == ()


def test_other_previews_count_when_asking_and_not_when_sending() -> None:
    funds = a_fund_context(funds_of("USDC", "100"), pending_spends={"USDC": Decimal("50.01")})
    refused = denied(DenialReason.BALANCE_INSUFFICIENT_CUMULATIVE, exposure, given(funds=funds))
    assert refused.metadata == {
        "asset": "USDC",
        "available": "100",
        "needed": "50",
        "pending": "50.01",
    }
    assert exposure_when_sending(given(funds=funds)) == ()


def test_too_little_for_the_move_alone_is_not_blamed_on_others() -> None:
    funds = a_fund_context(funds_of("USDC", "40"), pending_spends={"USDC": Decimal(30)})
    denied(DenialReason.BALANCE_INSUFFICIENT, exposure, given(funds=funds))


def test_previews_that_wait_are_mentioned() -> None:
    funds = a_fund_context(pending_spends={"USDC": Decimal(30), "BTC": Decimal(1)})
    assert exposure(given(funds=funds)) == ("PENDING_TOO:30 USDC",)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (a_trade(quantity="0"), DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        (a_trade(quantity="0.00009"), DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        (a_trade(quantity="-0.02"), DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        (a_trade(quantity="0.02001"), DenialReason.QUANTITY_PRECISION),
        (a_trade(quantity_unit=QuantityUnit.CONTRACTS), DenialReason.QUANTITY_PRECISION),
        (a_trade(quantity="0.0003"), DenialReason.QUANTITY_BELOW_MIN),
        (a_trade(limit_price=Decimal("2525.001")), DenialReason.PRICE_PRECISION),
        (a_trade(limit_price=Decimal(0)), DenialReason.PRICE_PRECISION),
        (a_trade(limit_price=Decimal(-2525)), DenialReason.PRICE_PRECISION),
        (a_trade(limit_price=Decimal("3750.01")), DenialReason.PRICE_OUT_OF_RANGE),
        (a_trade(SELL, limit_price=Decimal("1249.99")), DenialReason.PRICE_OUT_OF_RANGE),
        (a_limit_order(price="3750.01"), DenialReason.PRICE_OUT_OF_RANGE),
        (a_trade(reduce_only=True), DenialReason.REDUCE_ONLY_INCREASES),
        (a_trade(base="ETH", quote="BTC"), DenialReason.MARKET_CLOSED),
        (a_transfer(quantity=Decimal(0)), DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        (a_withdrawal(quantity=Decimal("0.02001")), DenialReason.QUANTITY_PRECISION),
        (a_withdrawal(quantity=Decimal("0.005")), DenialReason.QUANTITY_BELOW_MIN),
    ],
)
def test_what_the_venue_would_not_take_is_denied(
    order: ResolvedOrder, reason: DenialReason
) -> None:
    funds = a_fund_context(funds_of("ETH", "10"), funds_of("USDC", "100000"))
    denied(reason, exposure, given(order, funds))
    denied(reason, exposure_when_sending, given(order, funds))


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"min_quantity": Decimal("0.03")}, DenialReason.QUANTITY_BELOW_MIN),
        ({"min_notional": Decimal("50.01")}, DenialReason.QUANTITY_BELOW_MIN),
        ({"max_quantity": Decimal("0.01")}, DenialReason.QUANTITY_ABOVE_MAX),
        ({"max_notional": Decimal("49.99")}, DenialReason.QUANTITY_ABOVE_MAX),
    ],
)
def test_a_listings_own_limits_hold(rules: dict[str, Decimal], reason: DenialReason) -> None:
    denied(reason, exposure, given(funds=with_rules(**rules)))


@pytest.mark.parametrize(
    ("price", "warning"),
    [
        ("2500", ()),
        ("2625", ()),
        ("2625.01", ("LIMIT_WORSE_THAN_MARKET",)),
        ("3750", ("LIMIT_WORSE_THAN_MARKET",)),
        ("1250", ()),
        ("1249.99", ("LIMIT_FAR_FROM_MARKET",)),
    ],
)
def test_a_limit_far_from_the_market_is_noticed(price: str, warning: tuple[str, ...]) -> None:
    assert exposure(given(a_limit_order(price=price))) == warning


def test_without_a_price_purchases_are_denied_and_exits_warned() -> None:
    dark = a_fund_context(funds_of("ETH", "10", usd_price=None), funds_of("USDC", "100000"))
    denied(DenialReason.PRICE_UNAVAILABLE, exposure, given(a_limit_order(price="2500"), dark))
    assert exposure(given(a_limit_order(SELL, price="2500"), dark)) == ("PRICE_UNKNOWN",)
    assert exposure(given(a_trade(SELL), dark)) == ()


def concentrated(base: str, notional: str, **changes: Any) -> Any:
    price = {"DOGE": "0.2", "SOL": "150", "ETH": "2500", "BTC": "100000"}[base]
    quantity = str(round(Decimal(notional) / Decimal(price), 4))
    return given(a_trade(base=base, quantity=quantity), notional=notional, **changes)


@pytest.mark.parametrize(
    ("base", "most", "over"), [("SOL", "25000", "25001"), ("DOGE", "10000", "10001")]
)
def test_a_position_is_denied_over_its_kinds_share(base: str, most: str, over: str) -> None:
    assert exposure(concentrated(base, most)) == ()
    refused = denied(DenialReason.POSITION_CONCENTRATION, exposure, concentrated(base, over))
    assert refused.metadata["asset"] == base
    assert refused.metadata["position"] == over


@pytest.mark.parametrize(
    ("kind", "most", "over"),
    [
        (AssetClass.COMMODITY, "40000", "40001"),
        (AssetClass.FX, "40000", "40001"),
        (AssetClass.EQUITY, "40000", "40001"),
        (AssetClass.TOKENIZED_EQUITY, "40000", "40001"),
        (AssetClass.MACRO, "40000", "40001"),
        (AssetClass.PREDICTION, "10000", "10001"),
        (AssetClass.NFT, "10000", "10001"),
        (AssetClass.PERPS, "10000", "10001"),
        (None, "10000", "10001"),
    ],
)
def test_every_kind_has_its_share_and_an_unknown_one_the_strictest(
    kind: AssetClass | None, most: str, over: str
) -> None:
    funds = a_fund_context(
        funds_of("USDC", "100000"), funds_of("SOL", usd_price=Decimal(150), asset_class=kind)
    )
    assert exposure(concentrated("SOL", most, funds=funds)) == ()
    denied(DenialReason.POSITION_CONCENTRATION, exposure, concentrated("SOL", over, funds=funds))


def test_too_much_of_a_major_is_only_warned_about() -> None:
    thousand = a_fund_context(funds_of("USDC", "1000"), equity_usd=Decimal(1_000))
    assert exposure(concentrated("BTC", "700", funds=thousand)) == ("CONCENTRATED:BTC",)
    assert exposure(concentrated("BTC", "600", funds=thousand)) == ()


def test_a_position_up_to_250_dollars_is_never_too_much() -> None:
    poor = a_fund_context(funds_of("USDC", "300"), equity_usd=Decimal(300))
    assert exposure(concentrated("DOGE", "250", funds=poor)) == ()
    denied(DenialReason.POSITION_CONCENTRATION, exposure, concentrated("DOGE", "251", funds=poor))


def test_what_is_held_and_what_open_orders_may_buy_counts() -> None:
    doge = funds_of("DOGE", "20000", held="10000")  # 6,000 USD
    funds = a_fund_context(funds_of("USDC", "100000"), doge, buying_usd={"DOGE": Decimal(3_000)})
    assert exposure(concentrated("DOGE", "1000", funds=funds)) == ()
    denied(DenialReason.POSITION_CONCENTRATION, exposure, concentrated("DOGE", "1001", funds=funds))


def test_an_uncertain_purchase_counts_as_done_and_a_sale_as_not_done() -> None:
    def uncertain(side: Side, takes: dict[str, Decimal], brings: dict[str, Decimal]) -> Any:
        move = UncertainMove(
            instrument="DOGE/USDC",
            side=side,
            notional_usd=Decimal(9_000),
            takes=takes,
            brings=brings,
        )
        doge = funds_of("DOGE", "0", held="45000" if side is SELL else "0")
        return a_fund_context(funds_of("USDC", "100000"), doge, uncertain=(move,))

    dollars, doges = {"USDC": Decimal(9_000)}, {"DOGE": Decimal(45_000)}
    for funds in (uncertain(Side.BUY, dollars, doges), uncertain(SELL, doges, dollars)):
        assert exposure(concentrated("DOGE", "1000", funds=funds)) == ()
        denied(
            DenialReason.POSITION_CONCENTRATION, exposure, concentrated("DOGE", "1001", funds=funds)
        )


def test_a_sale_for_another_coin_concentrates_that_coin() -> None:
    order = a_trade(SELL, "ETH", "SOL", quantity="12")
    funds = a_fund_context(funds_of("ETH", "12"), listings={"ETH/SOL": rules_of("ETH", "SOL")})
    refused = denied(
        DenialReason.POSITION_CONCENTRATION, exposure, given(order, funds, notional="30000")
    )
    assert refused.metadata["asset"] == "SOL"


def test_with_equity_unknown_purchases_are_denied_and_exits_pass() -> None:
    funds = a_fund_context(
        funds_of("USDC", "100000"),
        funds_of("ETH", "10"),
        funds_of("ODD", "7", usd_price=None),
        equity_usd=None,
    )
    refused = denied(
        DenialReason.EQUITY_UNKNOWN, exposure, concentrated("BTC", "1000", funds=funds)
    )
    assert "ODD" in refused.metadata["assets"]
    assert exposure(given(a_trade(SELL), funds)) == ()


def test_a_position_without_a_price_cannot_grow() -> None:
    funds = a_fund_context(funds_of("USDC", "100000"), funds_of("ETH", "1", usd_price=None))
    denied(DenialReason.PRICE_UNAVAILABLE, exposure, given(funds=funds))


def test_an_exit_keeps_balance_and_precision() -> None:
    funds = a_fund_context(funds_of("ETH", "0.01"))
    denied(DenialReason.BALANCE_INSUFFICIENT, exposure, given(a_trade(SELL), funds))
    order = a_trade(SELL, quantity="0.00001")
    denied(DenialReason.QUANTITY_ROUNDS_TO_ZERO, exposure, given(order, funds))


def test_a_cancel_takes_nothing() -> None:
    broke = a_fund_context(funds_of("USDC", "0"), equity_usd=None, listings={})
    assert exposure(given(a_cancel(), broke)) == ()


def test_a_market_orders_least_value_is_measured_at_the_market() -> None:
    order = a_trade(SELL, quantity="0.02", limit_price=Decimal(2475))
    held = funds_of("ETH", "1")
    rules = {"ETH/USDC": rules_of("ETH", min_notional=Decimal("49.9"))}
    assert exposure(given(order, a_fund_context(held, listings=rules))) == ()
    resting = replace(order, order_type=OrderType.LIMIT)
    denied(
        DenialReason.QUANTITY_BELOW_MIN,
        exposure,
        given(resting, a_fund_context(held, listings=rules)),
    )


def test_an_exit_does_not_compete_with_previews_that_only_wait() -> None:
    funds = a_fund_context(funds_of("ETH", "0.02"), pending_spends={"ETH": Decimal("0.02")})
    exposure(given(a_trade(SELL), funds))


def test_no_more_than_a_hundred_orders_rest_and_a_sale_at_the_market_still_passes() -> None:
    funds = a_fund_context(funds_of("USDC", "100"), funds_of("ETH", "1"), open_orders=100)
    denied(DenialReason.RATE_LIMITED, exposure, given(a_limit_order(price="2500"), funds))
    exposure(given(a_trade(SELL), funds))
