"""The simulated market: deterministic, bounded, consistent with itself, and honest about it."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.lexicon_tables import asset_table
from minara_core.reasons import DenialReason
from minara_core.taxonomy import AssetClass
from minara_tools.adapters.market_simulated import SimulatedMarket, simulated_assets
from minara_tools.adapters.market_simulated_walk import walk
from minara_tools.domain.outcomes import ToolFailed
from support.clock import FixedClock

DAY = timedelta(days=1)


def test_every_asset_of_the_lexicon_but_macro_words_has_a_price_of_its_class() -> None:
    priced = {symbol: asset.asset_class for symbol, asset in simulated_assets().items()}
    named = asset_table().classes.items()
    assert priced == {s: c for s, c in named if c is not AssetClass.MACRO}


@given(
    symbol=st.sampled_from(["BTC", "DOGE", "X"]),
    minute=st.integers(min_value=0, max_value=10**8),
)
def test_a_walk_stays_within_one_and_takes_small_steps(symbol: str, minute: int) -> None:
    here, next_ = walk("seed", symbol, minute), walk("seed", symbol, minute + 1)
    assert -1 <= here <= 1
    assert abs(next_ - here) < Decimal("0.02")


async def test_the_same_seed_and_minute_have_the_same_price_in_every_process() -> None:
    one, two = SimulatedMarket(FixedClock()), SimulatedMarket(FixedClock())
    other = SimulatedMarket(FixedClock(), seed="another")
    assert await one.prices(("BTC", "ETH")) == await two.prices(("BTC", "ETH"))
    assert await one.prices(("BTC",)) != await other.prices(("BTC",))


async def test_a_price_moves_with_the_clock_and_stays_near_its_reference() -> None:
    clock = FixedClock()
    market = SimulatedMarket(clock)
    seen: set[Decimal] = set()
    for _ in range(60):
        clock.advance(timedelta(hours=7))
        (point,) = await market.prices(("BTC",))
        seen.add(point.price)
        assert Decimal(94_000) < point.price < Decimal(120_000)
        assert point.as_of == clock.now()
    assert len(seen) == 60


async def test_the_change_is_that_of_the_series() -> None:
    clock = FixedClock()
    market = SimulatedMarket(clock)
    (before,) = await market.prices(("SOL",))
    clock.advance(DAY)
    (after,) = await market.prices(("SOL",))
    percent = (after.price / before.price - 1) * 100
    assert abs(after.change_24h_percent - percent) <= Decimal("0.01")


async def test_every_answer_says_that_it_is_simulated() -> None:
    market = SimulatedMarket(FixedClock())
    (price,) = await market.prices(("XAU",))
    sources = {price.source, (await market.fear_greed()).source}
    sources |= {point.source for point in await market.trending(5)}
    sources |= {listing.source for listing in await market.search("bit", 5)}
    assert sources == {"simulated"}


async def test_an_unknown_asset_has_no_price() -> None:
    with pytest.raises(ToolFailed) as failed:
        await SimulatedMarket(FixedClock()).prices(("BTC", "CPI"))
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE


async def test_trending_are_the_biggest_movers() -> None:
    market = SimulatedMarket(FixedClock())
    moves = [abs(point.change_24h_percent) for point in await market.trending(10)]
    assert len(moves) == 10
    assert moves == sorted(moves, reverse=True)
    assert moves[0] >= abs((await market.prices(("BTC",)))[0].change_24h_percent)


async def test_a_wrapped_coin_costs_what_the_coin_costs() -> None:
    eth, weth, gold, paxg = await SimulatedMarket(FixedClock()).prices(
        ("ETH", "WETH", "XAU", "PAXG")
    )
    assert eth.price == weth.price
    assert gold.price == paxg.price


async def test_the_mood_has_the_name_of_its_number() -> None:
    clock = FixedClock()
    market = SimulatedMarket(clock)
    for _ in range(50):
        clock.advance(DAY)
        mood = await market.fear_greed()
        names = ["Extreme Fear", "Fear", "Neutral", "Greed", "Extreme Greed"]
        limits = (25, 45, 55, 75)
        assert 0 <= mood.value <= 100
        assert mood.classification == names[sum(mood.value >= limit for limit in limits)]


@pytest.mark.parametrize(
    ("query", "first"),
    [("btc", "BTC"), ("$ETH", "ETH"), ("비트코인", "BTC"), ("以太坊", "ETH"), ("dogwif", "WIF")],
)
async def test_search_finds_tickers_names_and_parts_of_names(query: str, first: str) -> None:
    found = await SimulatedMarket(FixedClock()).search(query, 5)
    assert found[0].symbol == first
    assert len(found) <= 5


async def test_search_for_nothing_finds_nothing() -> None:
    market = SimulatedMarket(FixedClock())
    assert await market.search("   ", 5) == ()
    assert await market.search("qqqqqqqqq", 5) == ()
