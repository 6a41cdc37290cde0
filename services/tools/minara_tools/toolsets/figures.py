"""How numbers, instants and values in USD stand in tool answers."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from minara_core.money import Rounding, multiply, quantize
from minara_tools.app.ports import MarketData
from minara_tools.domain.assets import usd_price
from minara_tools.domain.outcomes import ToolFailed

_CENT = Decimal("0.01")


def instant(time: datetime) -> str:
    """ISO 8601 in UTC with `Z`, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def usd_value(quantity: Decimal, price: Decimal, rounding: Rounding) -> Decimal:
    """`quantity` at `price` in whole cents."""
    return quantize(multiply(quantity, price), _CENT, rounding)


async def usd_prices(market: MarketData, symbols: tuple[str, ...]) -> Mapping[str, Decimal]:
    """What one unit of each asset counts in USD; assets without a price are left out."""
    try:
        points = await market.prices(symbols)
    except ToolFailed:
        if len(symbols) == 1:
            return {}
        one_by_one = [await usd_prices(market, (symbol,)) for symbol in symbols]
        return {symbol: price for found in one_by_one for symbol, price in found.items()}
    return {
        symbol: usd_price(symbol, point.price)
        for symbol, point in zip(symbols, points, strict=True)
    }
