"""Venue: one suite for the fake and for the paper venue on both databases."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest

from minara_core.actions import PlacedState, ResolvedOrder, Side, TimeInForce
from minara_core.ids import UserId
from minara_core.reasons import DenialReason
from minara_tools.adapters.venue_paper import PAPER_VERSIONS, PaperVenue
from minara_tools.app.ports import Venue
from minara_tools.toolsets.catalog import builtin_tools
from support.clock import FixedClock
from support.databases import Databases
from support.tools_world import STARTING, FakeFiles, FakeMarket, FakeVenue, a_context

ME = UserId("local")
FIRST = "0" * 31 + "1"
SECOND = "0" * 31 + "2"


@dataclass
class Place:
    venue: Venue
    market: FakeMarket
    clock: FixedClock

    async def order(self, tool: str = "buy_token", **arguments: str | None) -> ResolvedOrder:
        """The order that the money tool would park for a person."""
        entries = builtin_tools(
            market=self.market, venue=self.venue, files=FakeFiles(), clock=self.clock
        )
        (entry,) = (entry for entry in entries if entry.name == tool)
        assert entry.quote is not None
        given = {"symbol": "ETH", "amount": "50", "amount_unit": "quote", "intent": "as asked"}
        parsed = entry.arguments.model_validate(given | arguments)
        return (await entry.quote(parsed, a_context())).order

    async def free(self, asset: str, user_id: UserId = ME) -> Decimal:
        balances = await self.venue.balances(await self.venue.account(user_id))
        assert all(balance.held == 0 for balance in balances)
        return next((b.available for b in balances if b.asset == asset), Decimal(0))


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def place(request: pytest.FixtureRequest) -> AsyncGenerator[Place]:
    clock = FixedClock()
    market = FakeMarket(clock)
    if request.param == "fake":
        yield Place(FakeVenue(market, clock), market, clock)
        return
    shelf = request.getfixturevalue(
        "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    )
    databases = Databases(shelf)
    database = await databases.open(PAPER_VERSIONS)
    yield Place(PaperVenue(database, market, clock, starting_balances=STARTING), market, clock)
    await databases.aclose()


async def test_an_account_is_opened_once_with_its_starting_balances(place: Place) -> None:
    account = await place.venue.account(ME)
    assert await place.venue.account(ME) == account
    assert await place.venue.account(UserId("somebody")) != account
    assert await place.free("USDC") == Decimal(100_000)


async def test_two_first_uses_at_once_open_one_account(place: Place) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(place.venue.account(ME)) for _ in range(8)]
    assert len({task.result() for task in tasks}) == 1
    assert await place.free("USDC") == Decimal(100_000)


async def test_a_purchase_is_booked_as_it_is_answered(place: Place) -> None:
    order = await place.order()
    placed = await place.venue.place(order, FIRST)
    assert placed.state is PlacedState.FILLED
    assert placed.filled_quantity == order.quantity == placed.received
    assert placed.spent <= order.max_spend
    assert placed.fee > 0
    assert await place.free("USDC") == Decimal(100_000) - placed.spent
    assert await place.free("ETH") == placed.received


async def test_a_sale_is_booked_with_its_fee_off_the_receipt(place: Place) -> None:
    await place.venue.place(await place.order(amount="2", amount_unit="base"), FIRST)
    before = await place.free("USDC")
    order = await place.order("sell_token", amount="0.5", amount_unit="base")
    placed = await place.venue.place(order, SECOND)
    assert placed.state is PlacedState.FILLED
    assert (placed.spent, placed.spent_asset) == (Decimal("0.5"), "ETH")
    assert placed.received >= order.min_receipt
    assert placed.fee_asset == placed.received_asset == "USDC"
    assert await place.free("ETH") == Decimal("1.5")
    assert await place.free("USDC") == before + placed.received


async def test_the_same_client_id_is_one_order(place: Place) -> None:
    order = await place.order()
    placed = await place.venue.place(order, FIRST)
    after = await place.free("USDC")
    place.market.prices_usd["ETH"] = Decimal(2_600)
    assert await place.venue.place(order, FIRST) == placed
    assert await place.venue.find_order(order.account, FIRST) == placed
    assert await place.free("USDC") == after


async def test_eight_sends_at_once_are_one_order(place: Place) -> None:
    order = await place.order()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(place.venue.place(order, FIRST)) for _ in range(8)]
    answers = [task.result() for task in tasks]
    assert all(answer == answers[0] for answer in answers)
    assert await place.free("USDC") == Decimal(100_000) - answers[0].spent


async def test_a_client_id_serves_no_second_order(place: Place) -> None:
    order = await place.order()
    placed = await place.venue.place(order, FIRST)
    other = await place.venue.place(replace(order, quantity=order.quantity * 2), FIRST)
    assert (other.state, other.reason) == (PlacedState.REJECTED, "DUPLICATE_CLIENT_ID")
    assert other.spent == other.received == 0
    assert await place.venue.find_order(order.account, FIRST) == placed
    assert await place.free("USDC") == Decimal(100_000) - placed.spent


async def test_an_unknown_client_id_is_nobodys(place: Place) -> None:
    order = await place.order()
    await place.venue.place(order, FIRST)
    assert await place.venue.find_order(order.account, SECOND) is None
    other = await place.venue.account(UserId("somebody"))
    assert await place.venue.find_order(other, FIRST) is None


async def test_the_same_client_id_of_another_account_is_another_order(place: Place) -> None:
    order = await place.order()
    other = replace(order, account=await place.venue.account(UserId("somebody")))
    assert (await place.venue.place(order, FIRST)).state is PlacedState.FILLED
    assert (await place.venue.place(other, FIRST)).state is PlacedState.FILLED
    assert await place.free("ETH", UserId("somebody")) == order.quantity


async def test_what_the_account_does_not_have_is_rejected_for_good(place: Place) -> None:
    order = await place.order()
    greedy = replace(order, max_spend=Decimal(200_000))
    placed = await place.venue.place(greedy, FIRST)
    assert placed.state is PlacedState.REJECTED
    assert placed.reason == DenialReason.BALANCE_INSUFFICIENT
    assert await place.venue.place(greedy, FIRST) == placed
    assert await place.free("USDC") == Decimal(100_000)


async def test_nothing_is_filled_beyond_the_limit_price(place: Place) -> None:
    order = await place.order()
    place.market.prices_usd["ETH"] = Decimal(2_600)
    placed = await place.venue.place(order, FIRST)
    assert placed.state is PlacedState.CANCELLED
    assert placed.reason == DenialReason.SLIPPAGE_EXCEEDED
    assert placed.filled_quantity == placed.spent == 0
    assert await place.free("USDC") == Decimal(100_000)


async def test_a_worse_price_within_the_bound_spends_no_more_and_brings_the_least_promised(
    place: Place,
) -> None:
    order = await place.order()
    place.market.prices_usd["ETH"] = Decimal(2_520)
    placed = await place.venue.place(order, FIRST)
    assert placed.state is PlacedState.FILLED
    assert order.max_spend - Decimal("0.01") < placed.spent <= order.max_spend
    assert order.min_receipt <= placed.received < order.quantity


async def test_a_better_price_costs_less(place: Place) -> None:
    order = await place.order()
    place.market.prices_usd["ETH"] = Decimal(2_400)
    placed = await place.venue.place(order, FIRST)
    assert placed.filled_quantity == order.quantity
    assert placed.spent < Decimal(49)


async def test_an_order_of_an_unknown_account_is_rejected(place: Place) -> None:
    order = replace(await place.order(), account="nobody")
    assert (await place.venue.place(order, FIRST)).state is PlacedState.REJECTED
    assert await place.venue.find_order("nobody", FIRST) is None


async def test_an_order_that_would_rest_is_rejected(place: Place) -> None:
    order = replace(await place.order(), time_in_force=TimeInForce.GTC)
    assert (await place.venue.place(order, FIRST)).state is PlacedState.REJECTED


async def test_a_quote_says_all_that_leaves_and_all_that_arrives(place: Place) -> None:
    buy = await place.venue.quote("ETH/USDC", Side.BUY, Decimal(2))
    assert buy.cost == buy.average_price * 2 + buy.fee
    assert (buy.receipt, buy.receipt_asset) == (Decimal(2), "ETH")
    sell = await place.venue.quote("ETH/USDC", Side.SELL, Decimal(2))
    assert sell.cost == Decimal(2)
    assert sell.receipt == sell.average_price * 2 - sell.fee
    assert sell.average_price <= buy.average_price
    assert buy.quote_time == place.clock.now()
