"""Whatever a market does between preview and fill: what the preview promised holds at the venue."""

import asyncio
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minara_core.actions import PlacedState, Side
from minara_core.money import Rounding, canonical, divide, multiply, quantize
from minara_core.reasons import DenialReason
from minara_runtime.database import Database
from minara_tools.adapters.market_simulated import simulated_assets
from minara_tools.adapters.venue_paper import PAPER_VERSIONS, PaperVenue
from minara_tools.adapters.venue_paper_listings import paper_listings
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import Quotation, ToolEntry
from minara_tools.toolsets.trade.buy_token import buy_token
from minara_tools.toolsets.trade.place_limit_order import place_limit_order
from minara_tools.toolsets.trade.sell_token import sell_token
from support.clock import FixedClock
from support.databases import SqliteShelf
from support.tools_world import FakeMarket, a_context

TOO_LITTLE_OR_MUCH = {
    DenialReason.QUANTITY_ROUNDS_TO_ZERO,
    DenialReason.QUANTITY_BELOW_MIN,
    DenialReason.PRICE_IMPACT_EXCEEDED,
}
CLIENT_ID = "a" * 32
SYMBOLS = st.sampled_from(sorted(paper_listings()))
SIDES = st.sampled_from(list(Side))
UNITS = st.sampled_from(["quote", "base"])
DOLLARS = st.integers(min_value=100, max_value=300_000)


class Desk:
    """A paper venue with plenty of both assets of one market."""

    def __init__(self, url: str, symbol: str) -> None:
        self.rules = paper_listings()[symbol].rules
        self.clock = FixedClock()
        assets = simulated_assets()
        self.prices = {
            asset: assets[asset].reference if asset != "USDC" else Decimal(1)
            for asset in (self.rules.base, self.rules.quote, "USDC")
        }
        texts = {asset: canonical(price) for asset, price in self.prices.items()}
        self.market = FakeMarket(self.clock, texts)
        self.database = Database.open(url)
        plenty = {
            asset: quantize(divide(Decimal(50_000), price), Decimal("0.000001"), Rounding.DOWN)
            for asset, price in self.prices.items()
        }
        self.venue = PaperVenue(self.database, self.market, self.clock, starting_balances=plenty)

    @property
    def price(self) -> Decimal:
        return divide(self.prices[self.rules.base], self.prices[self.rules.quote])

    def drift(self, share: Decimal) -> None:
        moved = multiply(self.prices[self.rules.base], Decimal(1) + share)
        self.market.prices_usd[self.rules.base] = moved

    def amount(self, dollars: int, unit: str) -> str:
        asset = self.rules.quote if unit == "quote" else self.rules.base
        worth = divide(Decimal(dollars) / 100, self.prices[asset])
        return canonical(quantize(worth, Decimal("1e-12"), Rounding.DOWN))

    async def quoted(self, entry: ToolEntry, **arguments: str) -> Quotation | None:
        """None when the amount is less than the venue takes."""
        assert entry.quote is not None
        told = {"symbol": self.rules.symbol, "intent": "a test"} | arguments
        try:
            return await entry.quote(entry.arguments.model_validate(told), a_context())
        except ToolCallBlockedError as refused:
            if refused.reason in TOO_LITTLE_OR_MUCH:
                return None
            raise


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    symbol=SYMBOLS,
    side=SIDES,
    unit=UNITS,
    dollars=DOLLARS,
    drift=st.integers(min_value=-400, max_value=90),
)
def test_a_fill_keeps_every_promise_of_its_preview(
    sqlite_shelf: SqliteShelf, symbol: str, side: Side, unit: str, dollars: int, drift: int
) -> None:
    async def trade() -> None:
        url = await sqlite_shelf.new(PAPER_VERSIONS)
        desk = Desk(url, symbol)
        tool = buy_token if side is Side.BUY else sell_token
        entry = tool(desk.venue, desk.market)
        amount = desk.amount(dollars, unit)
        quotation = await desk.quoted(entry, amount=amount, amount_unit=unit)
        if quotation is not None:
            # Up to 0.9 % against the order, within every bound, or up to 4 % in its favour.
            desk.drift(Decimal(drift) / 10_000 * (1 if side is Side.BUY else -1))
            await check_fill(desk, quotation, drift)
            if unit == "quote" and side is Side.BUY:
                assert quotation.order.max_spend == Decimal(amount)
        await desk.database.aclose()
        await sqlite_shelf.remove(url)

    asyncio.run(trade())


async def check_fill(desk: Desk, quotation: Quotation, drift: int) -> None:
    order, preview = quotation.order, quotation.preview
    placed = (await desk.venue.send(await desk.venue.prepare(order, CLIENT_ID))).order
    assert placed.spent <= order.max_spend
    assert placed.fee <= order.max_fee
    assert placed.fee_asset == order.max_fee_asset
    if preview.price_impact == 0 or (drift <= 0 and not preview.warnings):
        assert placed.state is PlacedState.FILLED, placed.reason
    if placed.state is PlacedState.FILLED:
        assert placed.received >= order.min_receipt
    else:
        assert placed.reason == "REST_CANCELLED_BOUND"
        assert 0 < placed.filled_quantity < order.quantity


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    symbol=SYMBOLS,
    side=SIDES,
    unit=UNITS,
    dollars=DOLLARS,
    away=st.integers(min_value=-2_000, max_value=2_000),
    drift=st.integers(min_value=-400, max_value=400),
)
def test_a_limit_order_is_taken_and_costs_at_most_what_its_preview_says(
    sqlite_shelf: SqliteShelf,
    symbol: str,
    side: Side,
    unit: str,
    dollars: int,
    away: int,
    drift: int,
) -> None:
    async def trade() -> None:
        url = await sqlite_shelf.new(PAPER_VERSIONS)
        desk = Desk(url, symbol)
        wanted = multiply(desk.price, 1 + Decimal(away) / 10_000)
        limit = quantize(wanted, desk.rules.price_increment, Rounding.UP)
        quotation = await desk.quoted(
            place_limit_order(desk.venue, desk.market),
            side=side.value,
            amount=desk.amount(dollars, unit),
            amount_unit=unit,
            limit_price=canonical(limit),
        )
        if quotation is not None:
            desk.drift(Decimal(drift) / 10_000)
            await check_rest(desk, quotation)
            if unit == "quote" and side is Side.BUY:
                assert quotation.order.max_spend <= Decimal(desk.amount(dollars, unit))
        await desk.database.aclose()
        await sqlite_shelf.remove(url)

    asyncio.run(trade())


async def check_rest(desk: Desk, quotation: Quotation) -> None:
    order = quotation.order
    account = order.account
    placed = (await desk.venue.send(await desk.venue.prepare(order, CLIENT_ID))).order
    if placed.state is PlacedState.REJECTED:
        assert placed.reason == "QUANTITY_BELOW_MIN"
        return
    held = {one.asset: one.held for one in await desk.venue.balances(account)}
    assert placed.spent + held[order.max_spend_asset] <= order.max_spend
    assert placed.fee <= order.max_fee
    # Its price comes, and the whole of it is filled in the end.
    far = Decimal("-0.5") if order.side is Side.BUY else Decimal("0.5")
    desk.drift(far)
    found = await desk.venue.find_order(account, CLIENT_ID)
    assert found is not None
    assert found.spent <= order.max_spend
    assert found.fee <= order.max_fee
    if found.state is PlacedState.FILLED:
        assert found.received >= order.min_receipt
