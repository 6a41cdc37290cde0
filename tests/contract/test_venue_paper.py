"""What the paper venue does beyond the port: depth, prices it refuses, conservation of money."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minara_core.actions import (
    Instrument,
    OrderType,
    PlacedState,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.errors import InvalidRequest
from minara_core.ids import UserId
from minara_core.money import Rounding, add, canonical, divide, multiply, quantize
from minara_core.reasons import DenialReason
from minara_runtime.database import Database
from minara_tools.adapters.market_simulated import simulated_assets
from minara_tools.adapters.venue_paper import PAPER_VERSIONS, PaperVenue
from minara_tools.adapters.venue_paper_listings import paper_listings
from minara_tools.adapters.venue_paper_tables import BALANCES
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.toolsets.trade.buy_token import buy_token
from minara_tools.toolsets.trade.sell_token import sell_token
from support.clock import FixedClock
from support.databases import Databases, SqliteShelf
from support.tools_world import STARTING, FakeMarket, a_context

ME = UserId("local")


@dataclass
class Place:
    venue: PaperVenue
    market: FakeMarket
    clock: FixedClock
    database: Database
    databases: Databases
    url: str

    def reopened(self) -> PaperVenue:
        """The venue as a second process has it."""
        again = self.databases.reopen(self.url)
        return PaperVenue(again, self.market, self.clock, starting_balances=STARTING)


@pytest.fixture
async def place(databases: Databases) -> Place:
    clock = FixedClock()
    market = FakeMarket(clock)
    url = await databases.url()
    database = databases.reopen(url)
    venue = PaperVenue(database, market, clock, starting_balances=STARTING)
    await venue.migrate()
    return Place(venue, market, clock, database, databases, url)


def an_order(
    account: str,
    side: Side = Side.BUY,
    *,
    base: str = "ETH",
    quantity: str = "1",
    limit_price: str = "2525",
    max_spend: str = "2600",
    max_fee: str = "100",
) -> ResolvedOrder:
    spends, brings = ("USDC", base) if side is Side.BUY else (base, "USDC")
    return ResolvedOrder(
        mode=TradingMode.PAPER,
        venue="paper",
        account=account,
        instrument=Instrument(symbol=f"{base}/USDC", base=base, quote="USDC"),
        side=side,
        order_type=OrderType.MARKET,
        quantity=Decimal(quantity),
        quantity_unit=QuantityUnit.BASE,
        limit_price=Decimal(limit_price),
        time_in_force=TimeInForce.IOC,
        max_spend=Decimal(max_spend if side is Side.BUY else quantity),
        max_spend_asset=spends,
        min_receipt=Decimal(0),
        min_receipt_asset=brings,
        max_fee=Decimal(max_fee),
        max_fee_asset="USDC",
    )


async def test_orders_and_balances_survive_the_process(place: Place) -> None:
    account = await place.venue.account(ME)
    placed = await place.venue.place(an_order(account), "a")
    again = place.reopened()
    assert await again.account(ME) == account
    assert await again.find_order(account, "a") == placed
    assert await again.place(an_order(account), "a") == placed
    assert await again.balances(account) == await place.venue.balances(account)


async def test_two_processes_send_one_order_once(place: Place) -> None:
    account = await place.venue.account(ME)
    venues = (place.venue, place.reopened())
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(venue.place(an_order(account), "a"))
            for venue in venues
            for _ in range(3)
        ]
    assert len({task.result() for task in tasks}) == 1
    (held,) = [b for b in await place.venue.balances(account) if b.asset == "ETH"]
    assert held.available == Decimal(1)


async def test_a_larger_order_gets_a_worse_price(place: Place) -> None:
    small = await place.venue.quote("DOGE/USDC", Side.BUY, Decimal(1_000))
    large = await place.venue.quote("DOGE/USDC", Side.BUY, Decimal(100_000))
    assert small.price_impact == 0
    assert large.average_price > small.average_price
    assert large.price_impact > Decimal("0.005")


async def test_a_quote_holds_no_more_than_the_book(place: Place) -> None:
    quote = await place.venue.quote("DOGE/USDC", Side.SELL, Decimal(10**12))
    assert 0 < quote.quantity < Decimal(10**12)


async def test_what_lies_beyond_the_bound_is_cancelled_and_said(place: Place) -> None:
    account = await place.venue.account(ME)
    order = an_order(
        account, base="DOGE", quantity="200000", limit_price="0.202", max_spend="50000"
    )
    placed = await place.venue.place(order, "a")
    assert placed.state is PlacedState.CANCELLED
    assert placed.reason == "REST_CANCELLED_BOUND"
    assert 0 < placed.filled_quantity < order.quantity
    assert placed.average_price <= order.limit_price
    balances = {b.asset: b.available for b in await place.venue.balances(account)}
    assert balances["DOGE"] == placed.filled_quantity
    assert balances["USDC"] == Decimal(100_000) - placed.spent


async def test_the_taker_fee_is_a_thousandth_rounded_up(place: Place) -> None:
    account = await place.venue.account(ME)
    placed = await place.venue.place(an_order(account, quantity="0.000333"), "a")
    turnover = placed.spent - placed.fee
    assert turnover / 1000 <= placed.fee < turnover / 1000 + Decimal("0.000001")
    assert turnover >= placed.filled_quantity * Decimal("2500.25")


async def test_a_fee_over_the_confirmed_one_is_refused(place: Place) -> None:
    account = await place.venue.account(ME)
    placed = await place.venue.place(an_order(account, max_fee="2"), "a")
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, "FEE_EXCEEDS_MAX")
    assert await place.venue.balances(account) == await place.reopened().balances(account)


@pytest.mark.parametrize("price", ["NaN", "Infinity", "0", "-1"])
async def test_a_price_that_is_no_price_moves_nothing(place: Place, price: str) -> None:
    account = await place.venue.account(ME)
    place.market.prices_usd["ETH"] = Decimal(price)
    with pytest.raises(ToolFailed) as failed:
        await place.venue.place(an_order(account), "a")
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE
    assert await place.venue.find_order(account, "a") is None


async def test_a_float_price_is_refused(place: Place) -> None:
    place.market.prices_usd["ETH"] = cast("Any", 2_500.0)
    with pytest.raises(ToolFailed) as failed:
        await place.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE


@pytest.mark.parametrize("age", [timedelta(seconds=61), timedelta(seconds=-6)])
async def test_a_price_of_another_time_is_refused(place: Place, age: timedelta) -> None:
    place.market.age = age
    with pytest.raises(ToolFailed) as failed:
        await place.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE


async def test_what_is_recorded_is_told_also_without_a_price(place: Place) -> None:
    account = await place.venue.account(ME)
    placed = await place.venue.place(an_order(account), "a")
    del place.market.prices_usd["ETH"]
    assert await place.venue.place(an_order(account), "a") == placed


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"venue": "elsewhere"}, "ORDER_UNSUPPORTED"),
        ({"mode": TradingMode.LIVE}, "ORDER_UNSUPPORTED"),
        ({"leverage": Decimal(2)}, "ORDER_UNSUPPORTED"),
        ({"quantity_unit": QuantityUnit.QUOTE}, "ORDER_UNSUPPORTED"),
        ({"recipient": "0xabc"}, "ORDER_UNSUPPORTED"),
        ({"max_spend_asset": "ETH"}, "ORDER_UNSUPPORTED"),
        ({"quantity": Decimal("0.0000001")}, "ORDER_UNSUPPORTED"),
        ({"quantity": Decimal(0)}, DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ({"quantity": Decimal("-1")}, DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ({"quantity": Decimal("0.0001")}, DenialReason.QUANTITY_BELOW_MIN),
        ({"limit_price": Decimal("2525.001")}, DenialReason.PRICE_PRECISION),
        ({"limit_price": Decimal(0)}, DenialReason.PRICE_PRECISION),
    ],
)
async def test_an_order_it_cannot_take_is_rejected(
    place: Place, changed: dict[str, Any], reason: str
) -> None:
    account = await place.venue.account(ME)
    placed = await place.venue.place(replace(an_order(account), **changed), "a")
    assert (placed.state, placed.reason) == (PlacedState.REJECTED, reason)
    (only,) = await place.venue.balances(account)
    assert (only.asset, only.available) == ("USDC", Decimal(100_000))


async def test_a_nan_quantity_never_reaches_the_book(place: Place) -> None:
    account = await place.venue.account(ME)
    with pytest.raises(InvalidRequest):
        await place.venue.place(replace(an_order(account), quantity=Decimal("NaN")), "a")


def totals(rows: Iterable[tuple[str, str, Decimal, Decimal]]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for _, asset, available, held in rows:
        sums[asset] = add(sums.get(asset, Decimal(0)), add(available, held))
    return sums


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["anna", "ben"]),
        st.sampled_from(list(Side)),
        st.sampled_from([("ETH", "0.000001", "0.01"), ("DOGE", "0.01", "0.0000001")]),
        st.integers(min_value=1, max_value=10**9),
        st.integers(min_value=90, max_value=110),
        st.integers(min_value=1, max_value=50_000),
        st.integers(min_value=97, max_value=103),
    ),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_money_is_conserved_and_no_account_falls_below_zero(
    sqlite_shelf: SqliteShelf,
    steps: list[tuple[str, Side, tuple[str, str, str], int, int, int, int]],
) -> None:
    async def trade() -> None:
        clock = FixedClock()
        market = FakeMarket(clock)
        url = await sqlite_shelf.new(PAPER_VERSIONS)
        database = Database.open(url)
        starting = {"USDC": Decimal(100_000), "ETH": Decimal(3), "DOGE": Decimal(10_000)}
        venue = PaperVenue(database, market, clock, starting_balances=starting)
        for number, (user, side, (base, step, tick), size, bound, spend, drift) in enumerate(steps):
            account = await venue.account(UserId(user))
            price = market.prices_usd[base]
            order = an_order(
                account,
                side,
                base=base,
                quantity=str(Decimal(step) * size),
                limit_price=str((price * bound / 100).quantize(Decimal(tick))),
                max_spend=str(spend),
            )
            market.prices_usd[base] = price * drift / 100
            placed = await venue.place(order, str(number))
            assert min(placed.spent, placed.received, placed.fee) >= 0
            assert placed.spent <= order.max_spend
            rows = await database.read(lambda c: [tuple(r) for r in c.execute(sa.select(BALANCES))])
            assert set(totals(rows).values()) == {Decimal(0)}
            people = [row for row in rows if row[0] != "house"]
            assert all(available >= 0 and held == 0 for _, _, available, held in people)
        await database.aclose()
        await sqlite_shelf.remove(url)

    asyncio.run(trade())


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    symbol=st.sampled_from(sorted(paper_listings())),
    side=st.sampled_from(list(Side)),
    unit=st.sampled_from(["quote", "base"]),
    dollars=st.integers(min_value=100, max_value=300_000),
    drift=st.integers(min_value=-400, max_value=90),
)
def test_a_fill_keeps_every_promise_of_its_preview(
    sqlite_shelf: SqliteShelf, symbol: str, side: Side, unit: str, dollars: int, drift: int
) -> None:
    base = symbol.removesuffix("/USDC")
    reference = simulated_assets()[base].reference

    async def trade() -> None:
        clock = FixedClock()
        market = FakeMarket(clock, {base: canonical(reference), "USDC": "1"})
        url = await sqlite_shelf.new(PAPER_VERSIONS)
        database = Database.open(url)
        holding = divide(Decimal(50_000), reference).quantize(Decimal("0.000001"))
        starting = {"USDC": Decimal(100_000), base: holding}
        venue = PaperVenue(database, market, clock, starting_balances=starting)
        entry = buy_token(venue, market) if side is Side.BUY else sell_token(venue, market)
        money = Decimal(dollars) / 100
        size = quantize(divide(money, reference), Decimal("1e-12"), Rounding.DOWN)
        amount = canonical(money if unit == "quote" else size)
        arguments = {"symbol": symbol, "amount": amount, "amount_unit": unit, "intent": "a test"}
        assert entry.quote is not None
        quotation = await entry.quote(entry.arguments.model_validate(arguments), a_context())
        order, preview = quotation.order, quotation.preview
        # Up to 0.9 % against the order, which is within every bound, or up to 4 % in its favour.
        worse = Decimal(drift) / 10_000 * (1 if side is Side.BUY else -1)
        market.prices_usd[base] = multiply(reference, 1 + worse)
        placed = await venue.place(order, "a")
        await database.aclose()
        await sqlite_shelf.remove(url)
        assert placed.spent <= order.max_spend
        assert placed.fee <= order.max_fee
        if preview.price_impact == 0 or (drift <= 0 and not preview.warnings):
            assert placed.state is PlacedState.FILLED
        if placed.state is PlacedState.FILLED:
            assert placed.received >= order.min_receipt
        else:
            assert placed.reason == "REST_CANCELLED_BOUND"
            assert 0 < placed.filled_quantity < order.quantity
        if unit == "quote" and side is Side.BUY:
            assert order.max_spend == money

    asyncio.run(trade())
