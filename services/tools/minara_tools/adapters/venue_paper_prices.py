"""The paper venue's reference prices: fresh ones of the market, and the last good ones."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from minara_core.clock import Clock
from minara_core.money import Rounding, divide, quantize
from minara_core.reasons import DenialReason
from minara_runtime.database import Database
from minara_tools.adapters import venue_paper_store as store
from minara_tools.adapters.venue_paper_listings import Listing, paper_listings
from minara_tools.adapters.venue_paper_settle import Reference
from minara_tools.app.ports import MarketData, PricePoint
from minara_tools.domain.assets import usd_price
from minara_tools.domain.outcomes import ToolFailed

_OLDEST_PRICE = timedelta(seconds=60)
_CLOCK_LEEWAY = timedelta(seconds=5)
_PRICE_STEP = Decimal("1e-18")


class ReferencePrices:
    """A price that is stale, no number or not positive is no price. Each good one that differs from
    the one before it is kept in the database, so that a sale can still use it later."""

    def __init__(self, database: Database, market: MarketData, clock: Clock) -> None:
        self._database = database
        self._market = market
        self._clock = clock
        self._kept: dict[str, Decimal] = {}

    async def of(self, symbols: Iterable[str]) -> dict[str, Reference]:
        """The reference of each listing in `symbols` that has or had a price."""
        found: dict[str, Reference] = {}
        for symbol in dict.fromkeys(symbols):
            listing = paper_listings().get(symbol)
            reference = None if listing is None else await self._of(listing)
            if reference is not None:
                found[symbol] = reference
        return found

    async def _of(self, listing: Listing) -> Reference | None:
        symbol = listing.rules.symbol
        try:
            reference = await self._fresh(listing)
        except ToolFailed:
            good = await self._database.read(lambda c: store.good_price(c, symbol))
            if good is None:
                return None
            return Reference(price=good.price, source=good.source, time=good.time, is_fresh=False)
        if self._kept.get(symbol) != reference.price:
            good = store.GoodPrice(
                price=reference.price, source=reference.source, time=reference.time
            )
            await self._database.transaction(lambda c: store.keep_price(c, symbol, good))
            self._kept[symbol] = reference.price
        return reference

    async def _fresh(self, listing: Listing) -> Reference:
        rules = listing.rules
        base, quote = await self._market.prices((rules.base, rules.quote))
        now = self._clock.now()
        for point in (base, quote):
            _check(point, now)
        exact = divide(base.price, usd_price(rules.quote, quote.price))
        price = quantize(exact, _PRICE_STEP, Rounding.DOWN)
        if price <= 0:
            raise _unusable(rules.base, "too small")
        return Reference(price=price, source=base.source, time=now, is_fresh=True)


def _check(point: PricePoint, now: datetime) -> None:
    price = point.price
    is_number = isinstance(price, Decimal) and price.is_finite()  # pyright: ignore[reportUnnecessaryIsInstance] - a broken source may hand over a float
    if not is_number or price <= 0:
        raise _unusable(point.symbol, "no number")
    if not now - _OLDEST_PRICE <= point.as_of <= now + _CLOCK_LEEWAY:
        raise _unusable(point.symbol, "stale")


def _unusable(symbol: str, why: str) -> ToolFailed:
    return ToolFailed(DenialReason.PRICE_UNAVAILABLE, f"the price of {symbol} is {why}")
