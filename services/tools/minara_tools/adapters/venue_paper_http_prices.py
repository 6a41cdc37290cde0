"""Market data in which tests of the dev server force prices."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from minara_tools.app.ports import FearGreed, MarketData, PricePoint, TokenListing


class ForcedPrices:
    """Implements MarketData over another; `forced` has prices in USD that stand instead of its own,
    whatever they are: this is how a venue gets to see a NaN."""

    def __init__(self, market: MarketData) -> None:
        self._market = market
        self.forced: Mapping[str, Decimal] = {}

    async def prices(self, symbols: tuple[str, ...]) -> tuple[PricePoint, ...]:
        points = await self._market.prices(symbols)
        return tuple(
            replace(point, price=self.forced[point.symbol], source="forced")
            if point.symbol in self.forced
            else point
            for point in points
        )

    async def trending(self, limit: int) -> tuple[PricePoint, ...]:
        return await self._market.trending(limit)

    async def fear_greed(self) -> FearGreed:
        return await self._market.fear_greed()

    async def search(self, query: str, limit: int) -> tuple[TokenListing, ...]:
        return await self._market.search(query, limit)
