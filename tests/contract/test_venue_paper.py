"""What the paper venue does beyond the port: depth, partial fills, prices it refuses, recovery."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from minara_core.actions import MoveKind, PlacedState, QuantityUnit, ResolvedOrder, Side
from minara_core.ids import UserId
from minara_core.reasons import DenialReason
from minara_tools.adapters.venue_paper import PAPER_VERSIONS, PaperVenue
from minara_tools.domain.outcomes import ToolFailed
from support.clock import FixedClock
from support.databases import Databases
from support.tools.venue_places import (
    EVER,
    FIRST,
    ME,
    PRICES,
    SECOND,
    SECRET,
    SOMEBODY,
    THIRD,
    Place,
    a_transfer,
    a_withdrawal,
)
from support.tools_world import STARTING, FakeMarket

MUCH = Decimal(100_000)
TEN_SECONDS = timedelta(seconds=10)


@dataclass
class Paper(Place):
    databases: Databases | None = None
    url: str = ""

    def reopened(self, secret: bytes = SECRET) -> PaperVenue:
        """The venue as a second process has it."""
        assert self.databases is not None
        again = self.databases.reopen(self.url)
        return PaperVenue(again, self.market, self.clock, starting_balances=STARTING, secret=secret)

    async def doge(self, side: Side, quantity: str, limit: str, *, rests: bool) -> ResolvedOrder:
        order = await self.resting(side, quantity, limit, "DOGE/USDC")
        return order if rests else replace(order, time_in_force=(await self.trade()).time_in_force)


@pytest.fixture
async def paper(databases: Databases) -> Paper:
    clock = FixedClock()
    market = FakeMarket(clock, PRICES)
    url = await databases.url(PAPER_VERSIONS)
    database = databases.reopen(url)
    venue = PaperVenue(database, market, clock, starting_balances=STARTING, secret=SECRET)
    return Paper(venue, market, clock, databases=databases, url=url)


async def test_orders_balances_and_facts_survive_the_process(paper: Paper) -> None:
    order = await paper.trade()
    answer = await paper.sent(order, FIRST)
    again = paper.reopened()
    assert await again.account(ME) == order.account
    assert await again.find_order(order.account, FIRST) == answer.order
    assert await again.send(await again.prepare(order, FIRST)) == answer
    assert await again.balances(order.account) == await paper.venue.balances(order.account)
    assert await again.facts(order.account, EVER) == await paper.facts()


async def test_a_resting_order_fills_in_another_process(paper: Paper) -> None:
    order = await paper.resting(Side.BUY, "0.02", "2400")
    await paper.placed(order, FIRST)
    paper.market.prices_usd["ETH"] = Decimal(2_390)
    again = paper.reopened()
    await again.advance()
    filled = await again.find_order(order.account, FIRST)
    assert filled is not None
    assert filled.state is PlacedState.FILLED
    assert await paper.venue.find_order(order.account, FIRST) == filled


async def test_two_processes_send_one_order_once(paper: Paper) -> None:
    order = await paper.trade()
    venues = (paper.venue, paper.reopened())
    requests = [(venue, await venue.prepare(order, FIRST)) for venue in venues for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(venue.send(request)) for venue, request in requests]
    assert len({str(task.result()) for task in tasks}) == 1
    assert await paper.free("ETH") == order.quantity


async def test_many_people_trade_and_transfer_at_once(paper: Paper) -> None:
    people = [UserId(f"person-{number}") for number in range(6)]
    venues = (paper.venue, paper.reopened())

    async def trades(user: UserId, number: int) -> None:
        venue = venues[number % 2]
        primary, perps = (listed.account for listed in await venue.accounts(user))
        resting = await paper.resting(Side.BUY, "0.02", "2400")
        moves = (
            replace(await paper.trade(), account=primary),
            replace(resting, account=primary),
            a_transfer(venue, primary, perps, "7"),
            a_withdrawal(venue, primary, "3"),
        )
        async with asyncio.TaskGroup() as group:
            for move in moves:
                request = await venue.prepare(move, paper.new_id())
                group.create_task(venue.send(request))

    async with asyncio.TaskGroup() as group:
        for number, user in enumerate(people):
            group.create_task(trades(user, number))
    await paper.check_books(*people)
    for user in people:
        primary, perps = (listed.account for listed in await paper.venue.accounts(user))
        assert await paper.free("ETH", primary) == Decimal("0.02")
        assert await paper.free("USDC", perps) == Decimal(7)
        assert len(await paper.venue.open_orders(primary)) == 1


async def test_the_background_job_fills_in_every_account(paper: Paper) -> None:
    accounts = [await paper.account(user) for user in (ME, SOMEBODY)]
    resting = await paper.resting(Side.BUY, "0.02", "2400")
    for account in accounts:
        await paper.placed(replace(resting, account=account), FIRST)
    paper.market.prices_usd["ETH"] = Decimal(2_390)
    assert isinstance(paper.venue, PaperVenue)
    await paper.venue.advance()
    paper.market.prices_usd["ETH"] = Decimal(2_500)
    for account in accounts:
        assert await paper.venue.open_orders(account) == ()
    assert len(await paper.venue.every_order()) == 2


async def test_a_request_of_another_secret_is_nobodys(paper: Paper) -> None:
    stranger = paper.reopened(b"some other secret")
    request = await stranger.prepare(await paper.trade(), FIRST)
    with pytest.raises(ToolFailed) as failed:
        await paper.venue.send(request)
    assert failed.value.reason == "SIGNATURE_INVALID"


async def test_a_request_from_the_future_is_rejected_for_good(paper: Paper) -> None:
    request = await paper.venue.prepare(await paper.trade(), FIRST)
    paper.clock.advance(timedelta(seconds=-2))
    refused = (await paper.venue.send(request)).order
    assert (refused.state, refused.reason) == (PlacedState.REJECTED, DenialReason.CLOCK_SKEW)
    paper.clock.advance(timedelta(seconds=2))
    assert (await paper.venue.send(request)).order == refused


async def test_a_larger_order_gets_a_worse_price(paper: Paper) -> None:
    small = await paper.venue.quote("DOGE/USDC", Side.BUY, Decimal(1_000))
    large = await paper.venue.quote("DOGE/USDC", Side.BUY, Decimal(100_000))
    assert small.price_impact == 0
    assert large.average_price > small.average_price
    assert large.price_impact > Decimal("0.005")


async def test_a_quote_holds_no_more_than_the_book(paper: Paper) -> None:
    quote = await paper.venue.quote("DOGE/USDC", Side.SELL, Decimal(10**12))
    assert 0 < quote.quantity < Decimal(10**12)


async def test_what_lies_beyond_the_bound_is_cancelled_and_said(paper: Paper) -> None:
    order = await paper.doge(Side.BUY, "200000", "0.202", rests=False)
    placed = await paper.placed(order, FIRST)
    assert placed.state is PlacedState.CANCELLED
    assert placed.reason == "REST_CANCELLED_BOUND"
    assert 0 < placed.filled_quantity < order.quantity
    assert placed.average_price <= order.limit_price
    assert await paper.free("DOGE") == placed.filled_quantity
    assert await paper.free("USDC") == MUCH - placed.spent
    await paper.check_books()


async def test_the_rest_of_a_large_limit_order_fills_part_by_part(paper: Paper) -> None:
    order = await paper.doge(Side.BUY, "40000", "0.202", rests=True)
    parts = [await paper.placed(order, FIRST)]
    assert parts[0].state is PlacedState.OPEN
    assert 0 < parts[0].filled_quantity < order.quantity
    while parts[-1].state is PlacedState.OPEN:
        held = (await paper.balance("USDC")).held
        left = order.quantity - parts[-1].filled_quantity
        assert left * order.limit_price < held <= left * order.limit_price * Decimal("1.0006")
        paper.clock.advance(TEN_SECONDS)
        found = await paper.venue.find_order(order.account, FIRST)
        assert found is not None
        assert found.filled_quantity > parts[-1].filled_quantity
        parts.append(found)
    assert len(parts) > 2
    assert parts[-1].state is PlacedState.FILLED
    fills = [fact for fact in await paper.facts() if fact.quantity and fact.client_order_id]
    assert len(fills) == len(parts)
    assert sum(fact.quantity for fact in fills) == order.quantity
    assert (await paper.balance("USDC")).held == 0
    await paper.check_books()


async def test_one_book_serves_an_order_once_however_often_it_is_looked_at(paper: Paper) -> None:
    order = await paper.doge(Side.BUY, "20000", "0.202", rests=True)
    placed = await paper.placed(order, FIRST)
    for _ in range(3):
        assert await paper.venue.find_order(order.account, FIRST) == placed
    paper.market.prices_usd["DOGE"] = Decimal("0.1999")
    later = await paper.venue.find_order(order.account, FIRST)
    assert later is not None
    assert later.filled_quantity > placed.filled_quantity


async def test_a_partly_filled_order_keeps_its_part_when_cancelled(paper: Paper) -> None:
    order = await paper.doge(Side.BUY, "20000", "0.202", rests=True)
    part = await paper.placed(order, FIRST)
    ended = (await paper.venue.cancel_order(order.account, FIRST)).order
    assert ended.state is PlacedState.CANCELLED
    assert (ended.filled_quantity, ended.spent) == (part.filled_quantity, part.spent)
    balance = await paper.balance("USDC")
    assert (balance.available, balance.held) == (MUCH - part.spent, 0)
    await paper.check_books()


async def test_a_taker_pays_a_thousandth_and_a_maker_half_of_it(paper: Paper) -> None:
    taken = await paper.placed(await paper.trade(quantity=Decimal("0.000333")), FIRST)
    turnover = taken.spent - taken.fee
    assert turnover / 1000 <= taken.fee < turnover / 1000 + Decimal("0.000001")
    assert turnover >= taken.filled_quantity * Decimal("2500.25")
    await paper.placed(await paper.resting(Side.BUY, "0.000333", "2400"), SECOND)
    paper.market.prices_usd["ETH"] = Decimal(2_300)
    made = await paper.venue.find_order(await paper.account(), SECOND)
    assert made is not None
    assert made.fee == Decimal("0.0004")
    assert made.spent == Decimal("0.7992") + made.fee


async def test_a_fee_over_the_confirmed_one_is_refused(paper: Paper) -> None:
    order = await paper.trade(quantity=Decimal(1), max_spend=Decimal(2_600), max_fee=Decimal(2))
    placed = await paper.placed(order, FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "FEE_EXCEEDS_MAX")
    resting = await paper.resting(Side.BUY, "1", "2400")
    dear = await paper.placed(replace(resting, max_fee=Decimal("1.199")), SECOND)
    assert (dear.state, dear.reason) == (PlacedState.REJECTED, "FEE_EXCEEDS_MAX")
    fair = await paper.placed(replace(resting, max_fee=Decimal("1.2")), THIRD)
    assert fair.state is PlacedState.OPEN


async def test_a_limit_order_that_could_spend_more_than_it_may_is_refused(paper: Paper) -> None:
    resting = await paper.resting(Side.BUY, "1", "2400")
    placed = await paper.placed(replace(resting, max_spend=Decimal(2_400)), FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "SPEND_EXCEEDS_MAX")
    assert await paper.free("USDC") == MUCH


async def test_a_float_price_is_refused(paper: Paper) -> None:
    paper.market.prices_usd["ETH"] = cast("Any", 2_500.0)
    with pytest.raises(ToolFailed) as failed:
        await paper.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE


@pytest.mark.parametrize("age", [timedelta(seconds=61), timedelta(seconds=-6)])
async def test_a_price_of_another_time_is_refused(paper: Paper, age: timedelta) -> None:
    paper.market.age = age
    with pytest.raises(ToolFailed) as failed:
        await paper.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE


@pytest.mark.parametrize("broken", ["NaN", "-1"])
async def test_a_sale_still_works_at_the_last_good_price(paper: Paper, broken: str) -> None:
    await paper.placed(await paper.trade(), FIRST)
    paper.market.prices_usd["ETH"] = Decimal(broken)
    again = paper.reopened()
    quote = await again.quote("ETH/USDC", Side.SELL, Decimal("0.02"))
    assert Decimal(2_499) < quote.average_price < Decimal(2_500)
    assert quote.source == "fake, last price of 12:00:00Z"
    sale = await paper.trade(Side.SELL)
    placed = (await again.send(await again.prepare(sale, SECOND))).order
    assert placed.state is PlacedState.FILLED
    assert placed.received == quote.receipt
    bought = await paper.placed(await paper.trade(), THIRD)
    assert (bought.state, bought.reason) == (PlacedState.REJECTED, "PRICE_UNAVAILABLE")


async def test_without_any_good_price_not_even_a_sale_works(paper: Paper) -> None:
    await paper.venue.deposit(await paper.account(), "ETH", Decimal(1))
    paper.market.age = timedelta(minutes=5)
    placed = await paper.placed(await paper.trade(Side.SELL), FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "PRICE_UNAVAILABLE")


async def test_a_stale_price_fills_no_resting_order(paper: Paper) -> None:
    order = await paper.resting(Side.BUY, "0.02", "2400")
    await paper.placed(order, FIRST)
    paper.market.prices_usd["ETH"] = Decimal(2_000)
    paper.market.age = timedelta(minutes=5)
    assert len(await paper.venue.open_orders(order.account)) == 1
    paper.market.age = timedelta()
    assert await paper.venue.open_orders(order.account) == ()


async def test_what_is_recorded_is_told_also_without_a_price(paper: Paper) -> None:
    order = await paper.trade()
    placed = await paper.placed(order, FIRST)
    del paper.market.prices_usd["ETH"]
    assert await paper.placed(order, FIRST) == placed


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"leverage": Decimal(2)}, "ORDER_UNSUPPORTED"),
        ({"quantity_unit": QuantityUnit.QUOTE}, "ORDER_UNSUPPORTED"),
        ({"recipient": "0xabc"}, "ORDER_UNSUPPORTED"),
        ({"memo": "7"}, "ORDER_UNSUPPORTED"),
        ({"max_spend_asset": "ETH"}, "ORDER_UNSUPPORTED"),
        ({"quantity": Decimal("0.0000001")}, "ORDER_UNSUPPORTED"),
        ({"quantity": Decimal(0)}, DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ({"quantity": Decimal("-1")}, DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ({"quantity": Decimal("0.0001")}, DenialReason.QUANTITY_BELOW_MIN),
        ({"quantity": Decimal(20_001)}, "QUANTITY_ABOVE_MAX"),
        ({"quantity": Decimal(8_000)}, "QUANTITY_ABOVE_MAX"),
        ({"quantity": Decimal("1e19")}, "QUANTITY_ABOVE_MAX"),
        ({"limit_price": Decimal("2525.001")}, DenialReason.PRICE_PRECISION),
        ({"limit_price": Decimal(0)}, DenialReason.PRICE_PRECISION),
        ({"kind": MoveKind.TRANSFER}, "ORDER_UNSUPPORTED"),
        ({"kind": MoveKind.WITHDRAWAL}, DenialReason.CHAIN_UNSPECIFIED),
        ({"kind": MoveKind.CANCEL}, "ORDER_NOT_FOUND"),
    ],
)
async def test_an_order_it_cannot_take_is_rejected(
    paper: Paper, changed: dict[str, Any], reason: str
) -> None:
    order = await paper.trade(**changed)
    placed = await paper.placed(order, FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, reason)
    assert await paper.venue.find_order(order.account, FIRST) == placed
    (only,) = await paper.venue.balances(order.account)
    assert (only.asset, only.available) == ("USDC", MUCH)


@pytest.mark.parametrize(
    ("asset", "amount"), [("ETH", "0.123456789012345678"), ("PEPE", "123000"), ("BTC", "1e-8")]
)
async def test_amounts_come_back_digit_for_digit(paper: Paper, asset: str, amount: str) -> None:
    primary, perps = await paper.venue.accounts(ME)
    value = Decimal(amount)
    await paper.venue.deposit(primary.account, asset, value)
    move = a_transfer(paper.venue, primary.account, perps.account, amount, asset)
    assert (await paper.placed(move, FIRST)).spent == value
    assert await paper.reopened().balances(perps.account) == (
        await paper.balance(asset, perps.account),
    )
    assert await paper.free(asset, perps.account) == value
    finer = a_transfer(paper.venue, perps.account, primary.account, f"{amount}1"[:40], asset)
    smaller = replace(finer, quantity=value / 10**12, max_spend=value)
    assert (await paper.placed(smaller, SECOND)).state is PlacedState.REJECTED


async def test_an_asset_without_decimals_trades_in_whole_pieces(paper: Paper) -> None:
    order = await paper.resting(Side.BUY, "1234000", "0.0000101", "PEPE/USDC")
    placed = await paper.placed(order, FIRST)
    assert placed.state is PlacedState.FILLED
    assert placed.received == Decimal(1_234_000)
    assert await paper.free("PEPE") == Decimal(1_234_000)
    odd = await paper.placed(replace(order, quantity=Decimal(1_234_001)), SECOND)
    assert (odd.state, odd.reason) == (PlacedState.REJECTED, "ORDER_UNSUPPORTED")


async def test_only_the_primary_account_withdraws(paper: Paper) -> None:
    _, perps = await paper.venue.accounts(ME)
    await paper.venue.deposit(perps.account, "USDC", Decimal(100))
    placed = await paper.placed(a_withdrawal(paper.venue, perps.account, "25"), FIRST)
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "ORDER_UNSUPPORTED")


@pytest.mark.parametrize("amount", ["0", "-1", "0.0000001"])
async def test_a_deposit_is_positive_whole_steps(paper: Paper, amount: str) -> None:
    account = await paper.account()
    with pytest.raises(ToolFailed):
        await paper.venue.deposit(account, "USDC", Decimal(amount))
    with pytest.raises(ToolFailed):
        await paper.venue.deposit("nobody", "USDC", Decimal(1))
    assert await paper.free("USDC") == MUCH
