"""Venue: accounts, quotes and immediate orders; one suite for every implementation."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from minara_core.actions import OrderType, PlacedState, Side
from minara_core.reasons import DenialReason
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import FactKind
from support.tools.venue_places import EVER, FIRST, ME, PAIR, SECOND, SOMEBODY, Place

MUCH = Decimal(100_000)
_SECOND = timedelta(seconds=1)


async def test_an_account_is_opened_once_with_its_starting_balances(place: Place) -> None:
    account = await place.account()
    assert await place.account() == account
    assert await place.account(SOMEBODY) != account
    assert await place.free("USDC") == MUCH
    (opening,) = await place.facts()
    assert (opening.kind, dict(opening.changes)) == (FactKind.DEPOSIT, {"USDC": MUCH})


async def test_two_first_uses_at_once_open_one_account(place: Place) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(place.venue.account(ME)) for _ in range(8)]
    assert len({task.result() for task in tasks}) == 1
    assert await place.free("USDC") == MUCH


async def test_a_user_has_a_primary_spot_account_and_an_empty_perps_account(place: Place) -> None:
    primary, perps = await place.venue.accounts(ME)
    assert primary.account == await place.account()
    assert (primary.purpose, primary.is_primary) == ("spot", True)
    assert (perps.purpose, perps.is_primary) == ("perps", False)
    assert await place.free("USDC", perps.account) == 0
    theirs = {listed.account for listed in await place.venue.accounts(SOMEBODY)}
    assert not theirs & {primary.account, perps.account}


async def test_what_it_can_do_makes_moves_provable(place: Place) -> None:
    assert place.venue.capabilities.moves_are_provable
    assert place.venue.capabilities.client_id_length == 32


async def test_a_purchase_is_booked_as_it_is_answered(place: Place) -> None:
    order = await place.trade()
    answer = await place.sent(order, FIRST)
    placed = answer.order
    assert placed.state is PlacedState.FILLED
    assert placed.filled_quantity == order.quantity == placed.received
    assert 0 < placed.fee < placed.spent <= order.max_spend
    assert await place.free("USDC") == MUCH - placed.spent
    assert await place.free("ETH") == placed.received
    assert (placed.instrument, placed.side) == ("ETH/USDC", Side.BUY)
    assert (placed.quantity, placed.limit_price) == (order.quantity, order.limit_price)
    assert placed.create_time == place.clock.now()
    await place.check_books()


async def test_a_trade_is_a_fill_and_a_fee_with_one_trade_id(place: Place) -> None:
    answer = await place.sent(await place.trade(), FIRST)
    placed = answer.order
    fill, fee = answer.facts
    assert (fill.kind, fee.kind) == (FactKind.FILL, FactKind.FEE)
    assert fill.trade_id == fee.trade_id
    assert dict(fill.changes) == {"ETH": placed.received, "USDC": placed.fee - placed.spent}
    assert dict(fee.changes) == {"USDC": -placed.fee}
    assert {fact.client_order_id for fact in answer.facts} == {FIRST}
    assert {fact.venue_order_id for fact in answer.facts} == {placed.venue_order_id}
    assert (fill.quantity, fill.instrument) == (placed.filled_quantity, "ETH/USDC")
    assert (await place.facts())[-2:] == answer.facts


async def test_a_sale_is_booked_with_its_fee_off_the_receipt(place: Place) -> None:
    await place.venue.deposit(await place.account(), "ETH", Decimal(2))
    order = await place.trade(Side.SELL, quantity=Decimal("0.5"), max_spend=Decimal("0.5"))
    placed = await place.placed(order, SECOND)
    assert placed.state is PlacedState.FILLED
    assert (placed.spent, placed.spent_asset) == (Decimal("0.5"), "ETH")
    assert placed.fee_asset == placed.received_asset == "USDC"
    assert await place.free("ETH") == Decimal("1.5")
    assert await place.free("USDC") == MUCH + placed.received
    await place.check_books()


async def test_a_purchase_of_a_pair_pays_its_fee_in_what_it_buys(place: Place) -> None:
    await place.venue.deposit(await place.account(), "BTC", Decimal(1))
    quote = await place.venue.quote(PAIR, Side.BUY, Decimal("0.02"))
    assert (quote.fee_asset, quote.receipt) == ("ETH", Decimal("0.02") - quote.fee)
    order = await place.trade(Side.BUY, PAIR, max_spend=Decimal("0.001"))
    answer = await place.sent(order, FIRST)
    placed = answer.order
    assert placed.state is PlacedState.FILLED
    assert (placed.spent, placed.spent_asset) == (quote.cost, "BTC")
    assert (placed.received, placed.received_asset) == (quote.receipt, "ETH")
    assert (placed.fee, placed.fee_asset) == (quote.fee, "ETH")
    fill, fee = answer.facts
    assert dict(fill.changes) == {"ETH": Decimal("0.02"), "BTC": -placed.spent}
    assert dict(fee.changes) == {"ETH": -placed.fee}
    assert await place.free("ETH") == placed.received
    await place.check_books()


async def test_a_sale_of_a_pair_pays_its_fee_in_what_it_gets(place: Place) -> None:
    await place.venue.deposit(await place.account(), "ETH", Decimal(1))
    placed = await place.placed(await place.trade(Side.SELL, PAIR), FIRST)
    assert placed.state is PlacedState.FILLED
    assert placed.fee_asset == placed.received_asset == "BTC"
    assert await place.free("BTC") == placed.received
    await place.check_books()


async def test_a_fee_in_another_asset_than_confirmed_is_refused(place: Place) -> None:
    await place.venue.deposit(await place.account(), "BTC", Decimal(1))
    order = await place.trade(Side.BUY, PAIR, max_fee_asset="BTC")
    assert (await place.placed(order, FIRST)).state is PlacedState.REJECTED


async def test_what_the_account_does_not_have_is_rejected_for_good(place: Place) -> None:
    greedy = await place.trade(max_spend=Decimal(200_000))
    placed = await place.placed(greedy, FIRST)
    assert placed.state is PlacedState.REJECTED
    assert placed.reason == DenialReason.BALANCE_INSUFFICIENT
    assert await place.venue.find_order(greedy.account, FIRST) == placed
    assert await place.placed(greedy, FIRST) == placed
    assert await place.free("USDC") == MUCH


async def test_nothing_is_filled_beyond_the_limit_price(place: Place) -> None:
    order = await place.trade()
    place.market.prices_usd["ETH"] = Decimal(2_600)
    placed = await place.placed(order, FIRST)
    assert placed.state is PlacedState.CANCELLED
    assert placed.reason == DenialReason.SLIPPAGE_EXCEEDED
    assert placed.filled_quantity == placed.spent == 0
    assert await place.free("USDC") == MUCH


async def test_a_purchase_spends_no_more_than_it_may(place: Place) -> None:
    order = await place.trade(max_spend=Decimal(50))
    placed = await place.placed(order, FIRST)
    assert placed.state is PlacedState.FILLED
    assert Decimal("49.99") < placed.spent <= order.max_spend
    assert placed.received < order.quantity


async def test_an_order_of_an_unknown_account_is_rejected(place: Place) -> None:
    await place.account()
    order = await place.trade(account="nobody")
    assert (await place.placed(order, FIRST)).state is PlacedState.REJECTED
    assert await place.venue.find_order("nobody", FIRST) is None


async def test_a_spot_order_on_the_perps_account_is_rejected(place: Place) -> None:
    _, perps = await place.venue.accounts(ME)
    await place.venue.deposit(perps.account, "USDC", Decimal(1_000))
    placed = await place.placed(await place.trade(account=perps.account), FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "ORDER_UNSUPPORTED")


async def test_a_market_order_that_would_rest_is_rejected(place: Place) -> None:
    resting = await place.resting(Side.BUY, "1", "2000")
    order = replace(resting, order_type=OrderType.MARKET)
    assert (await place.placed(order)).state is PlacedState.REJECTED


@pytest.mark.parametrize("price", ["NaN", "Infinity", "0", "-1"])
async def test_a_price_that_is_no_price_buys_nothing(place: Place, price: str) -> None:
    order = await place.trade()
    place.market.prices_usd["ETH"] = Decimal(price)
    placed = await place.placed(order, FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "PRICE_UNAVAILABLE")
    assert await place.free("USDC") == MUCH
    with pytest.raises(ToolFailed) as failed:
        await place.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE


async def test_a_refusal_stands_when_its_reason_is_gone(place: Place) -> None:
    order = await place.trade()
    place.market.prices_usd["ETH"] = Decimal("NaN")
    refused = await place.placed(order, FIRST)
    place.market.prices_usd["ETH"] = Decimal(2_500)
    assert await place.placed(order, FIRST) == refused
    assert await place.free("ETH") == 0


async def test_a_quote_says_all_that_leaves_and_all_that_arrives(place: Place) -> None:
    buy = await place.venue.quote("ETH/USDC", Side.BUY, Decimal(2))
    assert buy.cost == buy.average_price * 2 + buy.fee
    assert (buy.receipt, buy.receipt_asset) == (Decimal(2), "ETH")
    sell = await place.venue.quote("ETH/USDC", Side.SELL, Decimal(2))
    assert sell.cost == Decimal(2)
    assert sell.receipt == sell.average_price * 2 - sell.fee
    assert sell.average_price <= buy.average_price
    assert buy.quote_time == place.clock.now()


async def test_every_listing_names_its_assets_and_increments(place: Place) -> None:
    listings = await place.venue.instruments()
    assert PAIR in {rules.symbol for rules in listings}
    assert len({rules.symbol for rules in listings}) == len(listings)
    for rules in listings:
        assert rules.symbol == f"{rules.base}/{rules.quote}"
        assert min(rules.quantity_increment, rules.price_increment, rules.min_notional) > 0


async def test_facts_and_closed_orders_are_told_from_a_time_on(place: Place) -> None:
    first = await place.placed(await place.trade(), FIRST)
    place.clock.advance(_SECOND)
    since = place.clock.now()
    second = await place.placed(await place.trade(), SECOND)
    account = await place.account()
    assert await place.venue.closed_orders(account, since) == (second,)
    assert await place.venue.closed_orders(account, EVER) == (first, second)
    late = await place.venue.facts(account, since)
    assert {fact.client_order_id for fact in late} == {SECOND}
    assert [f.time for f in await place.facts()] == sorted(f.time for f in await place.facts())
