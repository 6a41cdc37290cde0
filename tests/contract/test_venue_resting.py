"""Venue: orders that rest, fill later, and end on request."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from minara_core.actions import PlacedState, Side, TimeInForce
from minara_core.reasons import DenialReason
from minara_tools.domain.outcomes import ToolFailed
from support.tools.venue_places import EVER, FIRST, PAIR, SECOND, SOMEBODY, THIRD, Place, a_cancel

MUCH = Decimal(100_000)
BUY_COST = Decimal("48.024")
"""0.02 ETH at 2400, and a fee of 0.05 %."""


async def a_resting_buy(place: Place, client_order_id: str = FIRST) -> str:
    """A purchase of 0.02 ETH at 2400, far from the price; its account."""
    order = await place.resting(Side.BUY, "0.02", "2400")
    placed = await place.placed(order, client_order_id)
    assert placed.state is PlacedState.OPEN
    return order.account


async def test_an_order_that_does_not_cross_rests_with_its_money_held(place: Place) -> None:
    account = await a_resting_buy(place)
    balance = await place.balance("USDC")
    assert (balance.available, balance.held) == (MUCH - BUY_COST, BUY_COST)
    (resting,) = await place.venue.open_orders(account)
    assert (resting.client_order_id, resting.state) == (FIRST, PlacedState.OPEN)
    assert (resting.filled_quantity, resting.spent, resting.fee) == (0, 0, 0)
    assert (resting.limit_price, resting.quantity) == (Decimal(2400), Decimal("0.02"))
    assert await place.venue.closed_orders(account, EVER) == ()
    assert len(await place.facts()) == 1
    await place.check_books()


async def test_a_resting_sale_holds_what_it_sells(place: Place) -> None:
    await place.venue.deposit(await place.account(), "ETH", Decimal(1))
    await place.placed(await place.resting(Side.SELL, "0.4", "2600"), FIRST)
    balance = await place.balance("ETH")
    assert (balance.available, balance.held) == (Decimal("0.6"), Decimal("0.4"))
    place.market.prices_usd["ETH"] = Decimal(2_700)
    found = await place.venue.find_order(await place.account(), FIRST)
    assert found is not None
    assert (found.state, found.spent) == (PlacedState.FILLED, Decimal("0.4"))
    assert found.received == Decimal(1_040) - Decimal("0.52")
    assert await place.free("USDC") == MUCH + found.received
    await place.check_books()


async def test_what_crosses_fills_at_once(place: Place) -> None:
    order = await place.resting(Side.BUY, "0.02", "2600")
    placed = await place.placed(order, FIRST)
    assert placed.state is PlacedState.FILLED
    assert placed.average_price < Decimal(2_510)
    assert (await place.balance("USDC")).held == 0
    await place.check_books()


async def test_an_order_fills_at_its_limit_when_the_price_gets_there(place: Place) -> None:
    account = await a_resting_buy(place)
    place.clock.advance(timedelta(minutes=1))
    place.market.prices_usd["ETH"] = Decimal(2_390)
    found = await place.venue.find_order(account, FIRST)
    assert found is not None
    assert found.state is PlacedState.FILLED
    assert (found.average_price, found.spent) == (Decimal(2_400), BUY_COST)
    assert found.received == Decimal("0.02")
    balance = await place.balance("USDC")
    assert (balance.available, balance.held) == (MUCH - BUY_COST, 0)
    assert await place.venue.open_orders(account) == ()
    assert await place.venue.closed_orders(account, place.clock.now()) == (found,)
    fills = [fact for fact in await place.facts() if fact.client_order_id == FIRST]
    assert {fact.time for fact in fills} == {place.clock.now()}
    await place.check_books()


@pytest.mark.parametrize("call", ["balances", "open_orders", "facts", "closed_orders"])
async def test_every_look_at_the_account_fills_what_is_due(place: Place, call: str) -> None:
    account = await a_resting_buy(place)
    place.market.prices_usd["ETH"] = Decimal(2_390)
    match call:
        case "balances":
            assert (await place.balance("ETH")).available == Decimal("0.02")
        case "open_orders":
            assert await place.venue.open_orders(account) == ()
        case "facts":
            assert any(fact.client_order_id == FIRST for fact in await place.facts())
        case _:
            assert len(await place.venue.closed_orders(account, EVER)) == 1


async def test_an_unusable_price_fills_nothing_and_hides_nothing(place: Place) -> None:
    account = await a_resting_buy(place)
    place.market.prices_usd["ETH"] = Decimal("NaN")
    found = await place.venue.find_order(account, FIRST)
    assert found is not None
    assert found.state is PlacedState.OPEN
    assert (await place.balance("USDC")).held == BUY_COST
    assert (await place.venue.cancel_order(account, FIRST)).order.state is PlacedState.CANCELLED


async def test_cancelling_releases_what_is_held(place: Place) -> None:
    account = await a_resting_buy(place)
    answer = await place.venue.cancel_order(account, FIRST)
    assert answer.order.state is PlacedState.CANCELLED
    assert (await place.balance("USDC")).available == MUCH
    assert (await place.balance("USDC")).held == 0
    assert await place.venue.open_orders(account) == ()
    assert await place.venue.closed_orders(account, EVER) == (answer.order,)
    place.market.prices_usd["ETH"] = Decimal(2_000)
    assert await place.free("ETH") == 0


async def test_cancelling_what_is_over_answers_what_it_is(place: Place) -> None:
    account = await a_resting_buy(place)
    first = await place.venue.cancel_order(account, FIRST)
    assert await place.venue.cancel_order(account, FIRST) == first
    filled = await place.placed(await place.trade(), SECOND)
    assert (await place.venue.cancel_order(account, SECOND)).order == filled


async def test_cancelling_what_is_not_there_fails(place: Place) -> None:
    account = await a_resting_buy(place)
    theirs = await place.account(SOMEBODY)
    for owner, client_order_id in ((account, SECOND), (theirs, FIRST)):
        with pytest.raises(ToolFailed) as failed:
            await place.venue.cancel_order(owner, client_order_id)
        assert failed.value.reason == "ORDER_NOT_FOUND"
    assert len(await place.venue.open_orders(account)) == 1


async def test_a_cancel_is_a_move_with_a_client_id_of_its_own(place: Place) -> None:
    account = await a_resting_buy(place)
    cancel = a_cancel(await place.resting(Side.BUY, "0.02", "2400"), FIRST)
    answer = await place.sent(cancel, SECOND)
    assert (answer.order.client_order_id, answer.order.state) == (SECOND, PlacedState.CANCELLED)
    assert (answer.order.spent, answer.order.received, answer.facts) == (0, 0, ())
    assert await place.venue.find_order(account, SECOND) == answer.order
    ended = await place.venue.find_order(account, FIRST)
    assert ended is not None
    assert ended.state is PlacedState.CANCELLED
    assert await place.sent(cancel, SECOND) == answer
    assert await place.venue.closed_orders(account, EVER) == (ended,)
    assert (await place.balance("USDC")).available == MUCH


async def test_a_cancel_of_nothing_is_rejected(place: Place) -> None:
    cancel = a_cancel(await place.trade(), THIRD)
    placed = await place.placed(cancel, FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "ORDER_NOT_FOUND")


async def test_a_cancel_that_comes_after_the_fill_says_so(place: Place) -> None:
    account = await a_resting_buy(place)
    place.market.prices_usd["ETH"] = Decimal(2_390)
    cancel = a_cancel(await place.resting(Side.BUY, "0.02", "2400"), FIRST)
    assert (await place.placed(cancel, SECOND)).state is PlacedState.FILLED
    assert (await place.venue.cancel_order(account, FIRST)).order.spent == BUY_COST
    await place.check_books()


async def test_a_cancel_and_a_fill_at_once_are_one_or_the_other(place: Place) -> None:
    account = await a_resting_buy(place)
    place.market.prices_usd["ETH"] = Decimal(2_390)
    async with asyncio.TaskGroup() as group:
        looks = [group.create_task(place.venue.balances(account)) for _ in range(4)]
        cancels = [group.create_task(place.venue.cancel_order(account, FIRST)) for _ in range(4)]
    assert len(looks) == 4
    states = {task.result().order.state for task in cancels}
    assert len(states) == 1
    balance = await place.balance("USDC")
    spent = BUY_COST if states == {PlacedState.FILLED} else Decimal(0)
    assert (balance.available, balance.held) == (MUCH - spent, 0)
    await place.check_books()


async def test_what_is_held_cannot_be_spent_twice(place: Place) -> None:
    order = await place.resting(Side.BUY, "30", "2400")
    assert (await place.placed(order, FIRST)).state is PlacedState.OPEN
    second = await place.placed(await place.resting(Side.BUY, "15", "2400"), SECOND)
    assert (second.state, second.reason) == (
        PlacedState.REJECTED,
        DenialReason.BALANCE_INSUFFICIENT,
    )
    await place.venue.cancel_order(order.account, FIRST)
    third = await place.placed(await place.resting(Side.BUY, "15", "2400"), THIRD)
    assert third.state is PlacedState.OPEN


async def test_a_resting_order_of_a_pair_holds_no_fee_of_what_it_spends(place: Place) -> None:
    await place.venue.deposit(await place.account(), "BTC", Decimal(1))
    resting = await place.resting(Side.BUY, "0.5", "0.02", PAIR)
    assert (await place.placed(resting, FIRST)).state is PlacedState.OPEN
    assert (await place.balance("BTC")).held == Decimal("0.01")
    place.market.prices_usd["ETH"] = Decimal(1_900)
    found = await place.venue.find_order(resting.account, FIRST)
    assert found is not None
    assert (found.state, found.spent) == (PlacedState.FILLED, Decimal("0.01"))
    assert (found.fee, found.fee_asset) == (Decimal("0.00025"), "ETH")
    assert await place.free("ETH") == Decimal("0.49975")
    await place.check_books()


async def test_an_immediate_limit_order_never_rests(place: Place) -> None:
    order = replace(await place.resting(Side.BUY, "0.02", "2400"), time_in_force=TimeInForce.IOC)
    placed = await place.placed(order, FIRST)
    assert placed.state is PlacedState.CANCELLED
    assert await place.venue.open_orders(order.account) == ()
    assert await place.free("USDC") == MUCH
