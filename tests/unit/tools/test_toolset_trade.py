"""Quotes of buy_token and sell_token: which order a person is asked to confirm."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from minara_core.actions import OrderType, QuantityUnit, Side, TimeInForce, TradingMode
from minara_core.denial_docs import denial_docs
from minara_core.reasons import DenialReason
from minara_tools.adapters.market_simulated import SimulatedMarket, simulated_assets
from minara_tools.adapters.venue_paper_book import Stop, Taken, book_side, take
from minara_tools.adapters.venue_paper_listings import paper_listings
from minara_tools.domain.arguments import validated
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import Quotation, ToolEntry
from minara_tools.domain.venue_terms import VenueQuote
from minara_tools.toolsets.trade.buy_token import buy_token
from minara_tools.toolsets.trade.listings import listing_named
from minara_tools.toolsets.trade.sell_token import sell_token
from support.clock import FixedClock
from support.tools.venue import FakeVenue
from support.tools_world import FakeMarket, a_context

HELD = {"USDC": Decimal(100_000), "ETH": Decimal("3.0000005"), "DOGE": Decimal(1_000)}


class Desk:
    def __init__(self, held: Mapping[str, Decimal] = HELD) -> None:
        self.clock = FixedClock()
        self.market = FakeMarket(self.clock)
        self.venue = FakeVenue(self.market, self.clock, held)
        self.buy = buy_token(self.venue, self.market)
        self.sell = sell_token(self.venue, self.market)

    async def quote(self, entry: ToolEntry, arguments_json: str) -> Quotation:
        assert entry.quote is not None
        return await entry.quote(validated(entry, arguments_json), a_context())


class ThinVenue(FakeVenue):
    """Holds one token and gives it up 2.1 % from its best price."""

    @override
    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        quote = await super().quote(symbol, side, min(quantity, Decimal(1)))
        return replace(quote, price_impact=Decimal("0.021"))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def words(amount: str, unit: str, symbol: str = "ETH") -> str:
    return (
        f'{{"symbol": "{symbol}", "amount": {amount}, "amount_unit": "{unit}", '
        '"intent": "as the person asked"}'
    )


EVERYTHING = '{"symbol": "ETH", "amount_unit": "all", "intent": "sell all my ETH"}'


async def refusal(desk: Desk, entry: ToolEntry, arguments_json: str) -> ToolCallBlockedError:
    """What the tool denies; its metadata is as documented."""
    with pytest.raises(ToolCallBlockedError) as refused:
        await desk.quote(entry, arguments_json)
    blocked = refused.value
    assert blocked.gate == "quote"
    assert denial_docs()[blocked.reason].allows(blocked.metadata), blocked.metadata
    return blocked


async def test_fifty_dollars_of_eth_spend_fifty_dollars(desk: Desk) -> None:
    quotation = await desk.quote(desk.buy, words('"50"', "quote"))
    order, preview = quotation.order, quotation.preview
    assert (order.mode, order.venue, order.account) == (TradingMode.PAPER, "fake", "fake-local")
    assert order.instrument.symbol == "ETH/USDC"
    assert (order.side, order.order_type) == (Side.BUY, OrderType.MARKET)
    assert order.time_in_force is TimeInForce.IOC
    assert order.quantity_unit is QuantityUnit.BASE
    assert (order.max_spend, order.max_spend_asset) == (Decimal(50), "USDC")
    cost = order.quantity * 2500
    assert cost + preview.estimated_fee <= 50 < cost + preview.estimated_fee + Decimal("0.003")
    assert order.limit_price == Decimal(2525)
    assert Decimal("0.0197") < order.min_receipt < order.quantity
    assert order.min_receipt_asset == preview.estimated_receipt_asset == "ETH"
    assert preview.estimated_fee <= order.max_fee < Decimal("0.0501")
    assert (preview.price, preview.slippage_bound) == (Decimal(2500), Decimal("0.01"))
    assert preview.notional_usd == Decimal("49.95")
    assert preview.quote_time == desk.clock.now()
    assert preview.source == "fake"


async def test_a_quantity_of_eth_may_cost_what_the_bound_allows(desk: Desk) -> None:
    order = (await desk.quote(desk.buy, words('"0.02"', "base"))).order
    assert order.quantity == order.min_receipt == Decimal("0.02")
    assert order.max_fee == Decimal("0.0505")
    assert order.max_spend == Decimal("50.5") + order.max_fee


async def test_a_quantity_is_rounded_down_to_the_venues_step(desk: Desk) -> None:
    order = (await desk.quote(desk.buy, words('"0.0200009"', "base"))).order
    assert order.quantity == Decimal("0.02")


async def test_a_sale_is_an_exit_bounded_at_one_percent(desk: Desk) -> None:
    quotation = await desk.quote(desk.sell, words('"100"', "base", "DOGE"))
    order = quotation.order
    assert (order.side, order.quantity) == (Side.SELL, Decimal(100))
    assert (order.max_spend, order.max_spend_asset) == (Decimal(100), "DOGE")
    assert order.limit_price == Decimal("0.198")
    assert order.min_receipt == Decimal("19.8") - Decimal("0.0198")
    assert quotation.preview.slippage_bound == Decimal("0.01")
    assert quotation.preview.estimated_receipt == Decimal("19.98")


async def test_all_becomes_a_number(desk: Desk) -> None:
    assert (await desk.quote(desk.sell, EVERYTHING)).order.quantity == Decimal(3)


async def test_fifty_dollars_sold_are_worth_fifty_dollars_before_the_fee(desk: Desk) -> None:
    quotation = await desk.quote(desk.sell, words('"50"', "quote"))
    assert quotation.order.quantity == Decimal("0.02")
    assert quotation.preview.estimated_receipt == Decimal("49.95")


@pytest.mark.parametrize(
    ("symbol", "bound"),
    [("BTC", Decimal("0.01")), ("DOGE", Decimal("0.05")), ("SOL", Decimal("0.03"))],
)
async def test_the_bound_of_a_purchase_is_that_of_its_class(
    desk: Desk, symbol: str, bound: Decimal
) -> None:
    desk.market.prices_usd["SOL"] = Decimal(150)
    quotation = await desk.quote(desk.buy, words('"50"', "quote", symbol))
    assert quotation.preview.slippage_bound == bound
    assert quotation.order.limit_price <= quotation.preview.price * (1 + bound)


async def test_the_limit_never_lies_beyond_the_bound() -> None:
    desk = Desk()
    desk.market.prices_usd["ETH"] = Decimal("2500.12345")
    buy = (await desk.quote(desk.buy, words('"50"', "quote"))).order
    sell = (await desk.quote(desk.sell, words('"0.02"', "base"))).order
    assert buy.limit_price == Decimal("2525.1246") < Decimal("2500.12345") * Decimal("1.01")
    assert sell.limit_price == Decimal("2475.1223") > Decimal("2500.12345") * Decimal("0.99")


async def test_a_dollar_off_its_peg_is_said_and_counted(desk: Desk) -> None:
    desk.market.prices_usd["USDC"] = Decimal("0.9")
    preview = (await desk.quote(desk.buy, words('"50"', "quote"))).preview
    assert preview.warnings == ("STABLECOIN_OFF_PEG:USDC",)
    assert preview.notional_usd == Decimal("44.96")


async def test_a_purchase_that_moves_the_price_too_far_is_refused_and_a_sale_is_warned() -> None:
    clock = FixedClock()
    market = FakeMarket(clock)
    venue = ThinVenue(market, clock, {"USDC": Decimal(100_000), "ETH": Decimal(10)})
    desk = Desk()
    failed = await refusal(desk, buy_token(venue, market), words('"50"', "quote"))
    assert failed.reason == DenialReason.PRICE_IMPACT_EXCEEDED
    quotation = await desk.quote(sell_token(venue, market), words('"1"', "base"))
    assert quotation.preview.warnings == ("PART_UNFILLED",)
    failed = await refusal(desk, buy_token(venue, market), words('"2"', "base"))
    assert failed.reason == DenialReason.PRICE_IMPACT_EXCEEDED
    assert "holds 1 ETH at most" in failed.message


@pytest.mark.parametrize(("percent", "limit"), [("1", "2475"), ("3", "2425"), ("10", "2250")])
async def test_a_sale_takes_the_bound_that_a_person_chose(percent: str, limit: str) -> None:
    clock = FixedClock()
    market = FakeMarket(clock)
    venue = FakeVenue(market, clock, {"ETH": Decimal(1)})
    text = words('"1"', "base")[:-1] + f', "bound_percent": "{percent}"}}'
    quotation = await Desk().quote(sell_token(venue, market), text)
    assert quotation.order.limit_price == Decimal(limit)
    assert quotation.preview.slippage_bound == Decimal(percent) / 100


async def test_a_sale_larger_than_the_book_sells_what_the_book_holds_and_says_so() -> None:
    clock = FixedClock()
    market = FakeMarket(clock)
    venue = ThinVenue(market, clock, {"USDC": Decimal(100_000), "ETH": Decimal(10)})
    desk = Desk()
    for amount, unit in (('"2"', "base"), ("null", "all")):
        quotation = await desk.quote(sell_token(venue, market), words(amount, unit))
        assert quotation.order.quantity == 1
        assert "BOOK_TOO_THIN" in quotation.preview.warnings


@pytest.mark.parametrize("symbol", ["eth", "ETH/USDC", "eth-usdc", "$ETH", "ether", "이더리움"])
async def test_one_listing_by_any_name(desk: Desk, symbol: str) -> None:
    assert (await listing_named(desk.venue, symbol)).symbol == "ETH/USDC"


@pytest.mark.parametrize("text", ["ETH", "ethereum"])
async def test_a_ticker_alone_means_its_market_in_dollars(text: str) -> None:
    venue = FakeVenue(pairs=("ETH/BTC",))
    assert (await listing_named(venue, text)).symbol == "ETH/USDC"
    assert (await listing_named(venue, "eth/btc")).symbol == "ETH/BTC"


@pytest.mark.parametrize("symbol", ["META", "ETHH", "NOSUCH", "USDC", "0x" + "ab" * 20, "?"])
async def test_what_is_not_exactly_one_listing_is_never_picked(desk: Desk, symbol: str) -> None:
    failed = await refusal(desk, desk.buy, words('"50"', "quote", symbol))
    assert failed.reason == DenialReason.TOKEN_AMBIGUOUS


async def test_several_listings_are_named_as_candidates(desk: Desk) -> None:
    failed = await refusal(desk, desk.buy, words('"50"', "quote", "bitcoin and ether"))
    assert failed.reason == DenialReason.TOKEN_AMBIGUOUS
    assert "BTC/USDC, ETH/USDC" in failed.message
    assert "ETH/USDC" in (await refusal(desk, desk.buy, words('"1"', "base", "ETHH"))).message


@pytest.mark.parametrize(
    ("amount", "unit", "reason"),
    [
        ('"0.0000001"', "base", DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ('"0"', "base", DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ('"0"', "quote", DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ('"0.001"', "quote", DenialReason.QUANTITY_ROUNDS_TO_ZERO),
        ('"0.4"', "quote", DenialReason.QUANTITY_BELOW_MIN),
        ('"0.0001"', "base", DenialReason.QUANTITY_BELOW_MIN),
    ],
)
async def test_too_little_is_refused(desk: Desk, amount: str, unit: str, reason: str) -> None:
    for entry in (desk.buy, desk.sell):
        assert (await refusal(desk, entry, words(amount, unit))).reason == reason


async def test_a_quote_asks_for_no_balance(desk: Desk) -> None:
    order = (await desk.quote(desk.buy, words('"100000.5"', "quote"))).order
    assert order.max_spend == Decimal("100000.5")
    assert (await desk.quote(desk.sell, words('"4"', "base"))).order.quantity == Decimal(4)


async def test_all_of_nothing_is_refused() -> None:
    desk = Desk({"USDC": Decimal(5)})
    assert (await refusal(desk, desk.sell, EVERYTHING)).reason == DenialReason.BALANCE_INSUFFICIENT


@pytest.mark.parametrize(
    "amount",
    ['"5e1"', '"+5"', '"-5"', '"NaN"', '"５０"', '"1,000"', "true", "5e1", "null", '"05"'],
)
async def test_an_amount_that_is_no_plain_number_is_refused(desk: Desk, amount: str) -> None:
    for entry in (desk.buy, desk.sell):
        with pytest.raises(ToolCallBlockedError) as blocked:
            await desk.quote(entry, words(amount, "quote"))
        assert blocked.value.reason is DenialReason.ARGUMENTS_INVALID


async def test_a_json_number_counts_by_its_exact_text(desk: Desk) -> None:
    order = (await desk.quote(desk.buy, words("50.10", "quote"))).order
    assert order.max_spend == Decimal("50.1")


@pytest.mark.parametrize(
    "arguments_json",
    [words('"5"', "all"), words("null", "base"), '{"symbol":"ETH","amount_unit":"base"}'],
)
async def test_all_takes_no_amount_and_all_else_takes_one(desk: Desk, arguments_json: str) -> None:
    with pytest.raises(ToolCallBlockedError):
        await desk.quote(desk.sell, arguments_json)


async def test_nothing_is_bought_all(desk: Desk) -> None:
    with pytest.raises(ToolCallBlockedError):
        await desk.quote(desk.buy, EVERYTHING)


async def test_a_quote_moves_nothing(desk: Desk) -> None:
    before = await desk.venue.balances("fake-local")
    await desk.quote(desk.buy, words('"50"', "quote"))
    await desk.quote(desk.sell, EVERYTHING)
    account = await desk.venue.account(a_context().user_id)
    assert {b.asset: b.available for b in await desk.venue.balances(account)} == HELD
    assert before == ()


LISTINGS = {s: one for s, one in paper_listings().items() if one.rules.quote == "USDC"}
SYMBOLS = st.sampled_from(sorted(LISTINGS))


async def test_every_listing_has_a_price_and_increments_that_fit_it() -> None:
    bases = tuple(listing.rules.base for listing in LISTINGS.values())
    for point in await SimulatedMarket(FixedClock()).prices(bases):
        rules = LISTINGS[f"{point.symbol}/USDC"].rules
        assert rules.quantity_increment * point.price < Decimal("0.05")
        assert rules.price_increment / point.price < Decimal("0.0002")


@settings(max_examples=200, deadline=None)
@given(
    symbol=SYMBOLS,
    side=st.sampled_from(list(Side)),
    steps=st.integers(min_value=1, max_value=10**9),
    budget=st.integers(min_value=0, max_value=10**12),
    bound=st.integers(min_value=90, max_value=110),
)
def test_what_is_taken_stays_within_size_bound_and_money(
    symbol: str, side: Side, steps: int, budget: int, bound: int
) -> None:
    listing = LISTINGS[symbol]
    price = simulated_assets()[listing.rules.base].reference
    levels = book_side(listing, price, side)
    limit = price * bound / 100
    quantity = listing.rules.quantity_increment * steps
    money = Decimal(budget).scaleb(-6)
    taken: Taken = take(listing, levels, side, quantity, limit=limit, budget=money)
    assert 0 <= taken.quantity <= quantity
    assert taken.quantity % listing.rules.quantity_increment == 0
    assert taken.fee >= taken.turnover / 1000
    if side is Side.BUY:
        assert taken.turnover + taken.fee <= max(money, Decimal(0))
        assert taken.turnover >= taken.quantity * levels[0].price
    else:
        assert taken.turnover - taken.fee >= 0
        assert taken.turnover <= taken.quantity * levels[0].price
    assert (taken.stop is Stop.DONE) == (taken.quantity == quantity)
