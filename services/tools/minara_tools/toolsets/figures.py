"""How numbers, instants and values in USD stand in tool answers."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from minara_core.lexicon_tables import asset_table
from minara_core.money import Rounding, multiply, quantize, subtract
from minara_core.taxonomy import AssetClass
from minara_tools.app.ports import MarketData
from minara_tools.domain.outcomes import ToolFailed

_CENT = Decimal("0.01")
_ONE = Decimal(1)
_PEG_WIDTH = Decimal("0.005")


def instant(time: datetime) -> str:
    """ISO 8601 in UTC with `Z`, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def asset_class(symbol: str) -> AssetClass | None:
    """The class of a ticker the lexicon knows."""
    return asset_table().classes.get(symbol)


def is_off_peg(symbol: str, price: Decimal) -> bool:
    """Whether a stablecoin's price is more than 0.5 % away from one dollar."""
    is_stable = asset_class(symbol) is AssetClass.STABLECOIN
    return is_stable and abs(subtract(price, _ONE)) > _PEG_WIDTH


def usd_price(symbol: str, price: Decimal) -> Decimal:
    """What one unit counts in USD: a stablecoin on its peg counts 1, all else its price."""
    if asset_class(symbol) is AssetClass.STABLECOIN and not is_off_peg(symbol, price):
        return _ONE
    return price


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
