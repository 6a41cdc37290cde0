"""What an asset is and what one unit of it counts in USD."""

from decimal import Decimal

from minara_core.lexicon_tables import asset_table
from minara_core.money import subtract
from minara_core.taxonomy import AssetClass

_ONE = Decimal(1)
_PEG_WIDTH = Decimal("0.005")


def asset_class(symbol: str) -> AssetClass | None:
    """The class of a ticker the lexicon knows."""
    return asset_table().classes.get(symbol)


def is_stablecoin(symbol: str) -> bool:
    """Whether it is a verified stablecoin, on its peg or not."""
    return asset_class(symbol) is AssetClass.STABLECOIN


def is_off_peg(symbol: str, price: Decimal) -> bool:
    """Whether a stablecoin's price is more than 0.5 % away from one dollar."""
    return is_stablecoin(symbol) and abs(subtract(price, _ONE)) > _PEG_WIDTH


def usd_price(symbol: str, price: Decimal) -> Decimal:
    """What one unit counts in USD: a stablecoin on its peg counts 1, all else its price."""
    if is_stablecoin(symbol) and not is_off_peg(symbol, price):
        return _ONE
    return price
