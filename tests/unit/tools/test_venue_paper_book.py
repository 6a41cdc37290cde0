"""The paper venue's book: what fills cost, and that no rounding favours the account."""

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from minara_core.actions import Side
from minara_core.money import Rounding, add, divide, multiply, quantize, subtract
from minara_tools.adapters.market_simulated import simulated_assets
from minara_tools.adapters.venue_paper_book import (
    MAKER_FEE,
    TAKER_FEE,
    Fills,
    book_side,
    booked,
    crossing,
)
from minara_tools.adapters.venue_paper_listings import Listing, asset_step, paper_listings
from minara_tools.adapters.venue_paper_networks import paper_networks

LISTINGS = paper_listings()
SYMBOLS = st.sampled_from(sorted(LISTINGS))
SIDES = st.sampled_from(list(Side))
RATES = st.sampled_from([TAKER_FEE, MAKER_FEE])
PARTS = st.lists(
    st.tuples(
        st.integers(1, 10**7), st.integers(1, 10**6), st.sampled_from([TAKER_FEE, MAKER_FEE])
    ),
    min_size=1,
    max_size=12,
)


def reference_of(listing: Listing) -> Decimal:
    dollars = simulated_assets()
    return divide(dollars[listing.rules.base].reference, dollars[listing.rules.quote].reference)


@settings(max_examples=200, deadline=None)
@given(symbol=SYMBOLS, side=SIDES, parts=PARTS)
def test_no_rounding_favours_the_account_or_costs_a_step_more_than_once(
    symbol: str, side: Side, parts: list[tuple[int, int, Decimal]]
) -> None:
    listing = LISTINGS[symbol]
    rules = listing.rules
    fills = Fills()
    for steps, ticks, rate in parts:
        quantity = rules.quantity_increment * steps
        turnover = multiply(quantity, rules.price_increment * ticks)
        fills = fills.plus(listing, side, quantity, turnover, rate)
    sums = booked(listing, side, fills)
    fee_step, money_step = listing.fee_step(side), listing.money_step
    assert 0 <= sums.fee - fills.fee < fee_step
    if side is Side.SELL:
        exact = subtract(fills.turnover, fills.fee)
        assert exact - 2 * money_step < sums.received <= exact
        assert sums.spent == fills.quantity
        return
    in_base = listing.fee_in_base(side)
    cost = fills.turnover if in_base else add(fills.turnover, fills.fee)
    assert cost <= sums.spent < cost + 2 * money_step
    brought = subtract(fills.quantity, fills.fee) if in_base else fills.quantity
    assert brought - fee_step < sums.received <= brought


@settings(max_examples=100, deadline=None)
@given(symbol=SYMBOLS, side=SIDES, moved=st.integers(min_value=-300, max_value=300))
def test_a_resting_order_gets_nothing_before_its_price_and_never_more_than_it_asks(
    symbol: str, side: Side, moved: int
) -> None:
    listing = LISTINGS[symbol]
    limit = quantize(reference_of(listing), listing.rules.price_increment, Rounding.DOWN)
    reference = limit * (10_000 + moved) / 10_000
    rest = listing.rules.quantity_increment * 10**9
    part = crossing(listing, reference, side, limit, rest)
    is_reached = reference <= limit if side is Side.BUY else reference >= limit
    assert (part > 0) == is_reached
    assert part <= rest
    assert part <= sum(level.quantity for level in book_side(listing, reference, side))
    assert crossing(listing, reference, side, limit, part) == part


def test_pairs_of_coins_charge_a_purchase_in_what_it_buys_and_dollars_do_not() -> None:
    assert {"ETH/BTC", "SOL/BTC", "BNB/BTC", "SOL/ETH"} <= set(LISTINGS)
    for symbol, listing in LISTINGS.items():
        is_pair = listing.rules.quote != "USDC"
        assert listing.fee_in_base(Side.BUY) == is_pair, symbol
        assert listing.fee_asset(Side.SELL) == listing.rules.quote
        assert listing.fee_asset(Side.BUY) == (
            listing.rules.base if is_pair else listing.rules.quote
        )


def test_increments_and_limits_of_every_listing_fit_its_price() -> None:
    for symbol, listing in LISTINGS.items():
        rules, price = listing.rules, reference_of(listing)
        dollar = simulated_assets()[rules.quote].reference
        assert rules.quantity_increment * price * dollar < Decimal("0.05"), symbol
        assert rules.price_increment / price < Decimal("0.0002"), symbol
        assert rules.quantity_increment % asset_step(rules.base) == 0, symbol
        assert rules.max_quantity is not None
        assert rules.max_notional is not None
        assert Decimal(900_000) <= rules.max_notional * dollar < Decimal(30_000_000), symbol
        assert rules.max_quantity * price >= rules.max_notional, symbol


def test_networks_need_a_memo_where_exchanges_ask_for_one() -> None:
    networks = paper_networks()
    assert networks["XRP", "xrpl"].needs_memo
    assert not networks["USDC", "base"].needs_memo
    assert {chain for asset, chain in networks if asset == "BTC"} == {"bitcoin"}
