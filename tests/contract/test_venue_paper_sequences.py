"""The paper venue under any sequence of moves: money is conserved, facts make the balances."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minara_core.actions import (
    OrderType,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.ids import UserId
from minara_core.money import Rounding, add, canonical, divide, multiply, quantize
from minara_runtime.database import Database
from minara_tools.adapters.market_simulated import simulated_assets
from minara_tools.adapters.venue_paper import PAPER_VERSIONS, PaperVenue
from minara_tools.adapters.venue_paper_book import MAKER_FEE
from minara_tools.adapters.venue_paper_listings import paper_listings
from minara_tools.adapters.venue_paper_tables import BALANCES
from minara_tools.domain.outcomes import ToolFailed
from support.clock import FixedClock
from support.databases import SqliteShelf
from support.tools.venue_places import (
    ME,
    SECRET,
    SOMEBODY,
    Place,
    a_cancel,
    a_trade,
    a_transfer,
    a_withdrawal,
)
from support.tools_world import FakeMarket

STARTING = {
    "USDC": Decimal(100_000),
    "ETH": Decimal("3.000000000000000001"),
    "BTC": Decimal("0.5"),
    "DOGE": Decimal(10_000),
}
SYMBOLS = ("ETH/USDC", "DOGE/USDC", "ETH/BTC", "DOGE/BTC")
PRICES = {"BTC": "100000", "ETH": "2500", "DOGE": "0.2", "USDC": "1"}
MANY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

USERS = st.sampled_from([ME, SOMEBODY])
ORDERS = st.tuples(
    st.sampled_from(["market", "limit"]),
    USERS,
    st.sampled_from(list(Side)),
    st.sampled_from(SYMBOLS),
    st.integers(min_value=1, max_value=3 * 10**6),
    st.integers(min_value=94, max_value=106),
)
OTHERS = st.tuples(
    st.sampled_from(["cancel", "cancel_move", "transfer", "withdraw", "deposit", "price", "wait"]),
    USERS,
    st.sampled_from(list(Side)),
    st.sampled_from(SYMBOLS),
    st.integers(min_value=1, max_value=10**6),
    st.integers(min_value=94, max_value=106),
)
Step = tuple[str, UserId, Side, str, int, int]


def an_order_of(place: Place, account: str, step: Step) -> ResolvedOrder:
    """A trade of `size` steps of the base, bounded at `percent` of the price."""
    kind, _, side, symbol, size, percent = step
    rules = paper_listings()[symbol].rules
    prices = place.market.prices_usd
    price = divide(prices[rules.base], prices[rules.quote])
    quantity = rules.quantity_increment * size
    limit = quantize(price * percent / 100, rules.price_increment, Rounding.DOWN)
    order = replace(
        a_trade(place.venue, account, side, symbol),
        quantity=quantity,
        limit_price=limit,
        max_spend=quantity * limit * Decimal("1.002") if side is Side.BUY else quantity,
        max_fee=Decimal(10**6),
    )
    if kind == "market":
        return order
    return replace(order, order_type=OrderType.LIMIT, time_in_force=TimeInForce.GTC)


async def done(place: Place, step: Step, sent: list[tuple[str, str]]) -> None:
    kind, user, _, symbol, size, percent = step
    primary, perps = (listed.account for listed in await place.venue.accounts(user))
    match kind:
        case "market" | "limit":
            await send(place, an_order_of(place, primary, step), sent)
        case "cancel" if sent:
            account, client_order_id = sent[size % len(sent)]
            await place.venue.cancel_order(account, client_order_id)
        case "cancel_move" if sent:
            account, client_order_id = sent[size % len(sent)]
            order = an_order_of(place, account, step)
            await place.placed(a_cancel(order, client_order_id))
        case "transfer":
            owners = (primary, perps) if percent % 2 else (perps, primary)
            amount = canonical(Decimal(size).scaleb(-3))
            await place.placed(a_transfer(place.venue, *owners, amount))
        case "withdraw":
            amount = canonical(Decimal(size).scaleb(-3))
            await place.placed(a_withdrawal(place.venue, primary, amount))
        case "deposit":
            await place.venue.deposit(primary, "DOGE", Decimal(size).scaleb(-8))
        case "price":
            base = symbol.split("/")[0]
            place.market.prices_usd[base] = place.market.prices_usd[base] * percent / 100
        case _:
            place.clock.advance(timedelta(seconds=size % 20))


async def send(place: Place, order: ResolvedOrder, sent: list[tuple[str, str]]) -> None:
    client_order_id = place.new_id()
    placed = await place.placed(order, client_order_id)
    sent.append((order.account, client_order_id))
    assert min(placed.spent, placed.received, placed.fee) >= 0
    assert placed.spent <= order.max_spend
    assert placed.filled_quantity <= order.quantity


async def check(place: Place, database: Database, sent: Iterable[tuple[str, str]]) -> None:
    await place.check_books(ME, SOMEBODY)
    rows = await database.read(lambda c: [tuple(r) for r in c.execute(sa.select(BALANCES))])
    sums: dict[str, Decimal] = {}
    for _, asset, available, held in rows:
        sums[asset] = add(sums.get(asset, Decimal(0)), add(available, held))
    assert set(sums.values()) <= {Decimal(0)}
    for account, client_order_id in sent:
        placed = await place.venue.find_order(account, client_order_id)
        assert placed is not None
        check_bounds(placed)


def check_bounds(placed: PlacedOrder) -> None:
    """No fill beyond the limit; the fee is never less than a maker's."""
    if placed.filled_quantity == 0:
        return
    listing = paper_listings()[placed.instrument]
    charged = placed.filled_quantity
    if not listing.fee_in_base(placed.side):
        charged = placed.spent if placed.side is Side.BUY else placed.received
    assert placed.fee >= multiply(charged, MAKER_FEE) * Decimal("0.999")
    if placed.side is Side.BUY:
        assert placed.average_price <= placed.limit_price
    else:
        assert placed.average_price >= placed.limit_price


@MANY
@given(steps=st.lists(ORDERS | OTHERS, min_size=1, max_size=12))
def test_facts_make_the_balances_and_the_house_mirrors_them(
    sqlite_shelf: SqliteShelf, steps: list[Step]
) -> None:
    async def trade() -> None:
        clock = FixedClock()
        market = FakeMarket(clock, PRICES)
        url = await sqlite_shelf.new(PAPER_VERSIONS)
        database = Database.open(url)
        venue = PaperVenue(database, market, clock, starting_balances=STARTING, secret=SECRET)
        place, sent = Place(venue, market, clock), list[tuple[str, str]]()
        try:
            for step in steps:
                await done(place, step, sent)
                await check(place, database, sent)
            for account, client_order_id in sent:
                await venue.cancel_order(account, client_order_id)
            for user in (ME, SOMEBODY):
                for balance in await venue.balances(await venue.account(user)):
                    assert balance.held == 0
            await check(place, database, sent)
        finally:
            await database.aclose()
            await sqlite_shelf.remove(url)

    asyncio.run(trade())


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    symbol=st.sampled_from(sorted(paper_listings())),
    side=st.sampled_from(list(Side)),
    dollars=st.integers(min_value=100, max_value=300_000),
)
def test_an_order_at_the_quoted_price_does_what_the_quote_said(
    sqlite_shelf: SqliteShelf, symbol: str, side: Side, dollars: int
) -> None:
    rules = paper_listings()[symbol].rules
    dollar = {name: asset.reference for name, asset in simulated_assets().items()}

    async def trade() -> None:
        clock = FixedClock()
        prices = {name: canonical(dollar[name]) for name in {rules.base, rules.quote}}
        market = FakeMarket(clock, prices | {"USDC": "1"})
        url = await sqlite_shelf.new(PAPER_VERSIONS)
        database = Database.open(url)
        held = {
            name: quantize(divide(Decimal(10_000), dollar[name]), Decimal("1e-6"), Rounding.UP)
            for name in {rules.base, rules.quote}
        }
        venue = PaperVenue(database, market, clock, starting_balances=held, secret=SECRET)
        wanted = divide(Decimal(dollars) / 100, dollar[rules.base])
        quantity = quantize(wanted, rules.quantity_increment, Rounding.DOWN)
        try:
            await fill_as_quoted(Place(venue, market, clock), symbol, side, quantity)
        finally:
            await database.aclose()
            await sqlite_shelf.remove(url)

    asyncio.run(trade())


async def fill_as_quoted(place: Place, symbol: str, side: Side, quantity: Decimal) -> None:
    rules = paper_listings()[symbol].rules
    try:
        quote = await place.venue.quote(symbol, side, quantity)
    except ToolFailed:
        return  # nothing of so small a size is listed
    worst = quote.average_price * (Decimal("1.5") if side is Side.BUY else Decimal("0.5"))
    order = replace(
        a_trade(place.venue, await place.account(), side, symbol),
        quantity=quote.quantity,
        limit_price=quantize(worst, rules.price_increment, Rounding.UP),
        max_spend=quote.cost,
    )
    placed = await place.placed(order)
    if placed.state is PlacedState.REJECTED:
        assert placed.reason == "QUANTITY_BELOW_MIN"
        return
    assert placed.state is PlacedState.FILLED
    assert (placed.spent, placed.received, placed.fee) == (quote.cost, quote.receipt, quote.fee)
    assert (placed.average_price, placed.fee_asset) == (quote.average_price, quote.fee_asset)
    await place.check_books()
