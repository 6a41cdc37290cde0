"""What the paper venue lists, with its limits and the depth of its books."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from minara_core.lexicon_tables import asset_table
from minara_core.money import parse_amount
from minara_tools.app.ports import InstrumentRules

_PRICE_DIGITS = 5
_QUANTITY_DIGITS = 3
_COARSEST_PRICE = Decimal("0.01")
_ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """One side of a book: `half_spread` and `step` are fractions of the reference price,
    `first_level` is in the quote asset."""

    half_spread: Decimal
    step: Decimal
    first_level: Decimal
    growth: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    rules: InstrumentRules
    depth: Depth


@cache
def paper_listings() -> Mapping[str, Listing]:
    """All listings by symbol."""
    path = files("minara_tools") / "adapters" / "venue_paper_listings.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    depths = {
        asset_class: Depth(**{name: parse_amount(text) for name, text in depth.items()})
        for asset_class, depth in raw["depth"].items()
    }
    listings = [
        Listing(
            rules=_rules(base, raw["quote"], group["magnitude"], parse_amount(raw["min_notional"])),
            depth=depths[asset_table().classes[base].value],
        )
        for group in raw["listings"]
        for base in group["bases"]
    ]
    return MappingProxyType({listing.rules.symbol: listing for listing in listings})


def _rules(base: str, quote: str, magnitude: int, min_notional: Decimal) -> InstrumentRules:
    step = _ONE.scaleb(-magnitude - _QUANTITY_DIGITS)
    return InstrumentRules(
        symbol=f"{base}/{quote}",
        base=base,
        quote=quote,
        quantity_increment=step,
        price_increment=min(_COARSEST_PRICE, _ONE.scaleb(magnitude - _PRICE_DIGITS)),
        min_quantity=step,
        min_notional=min_notional,
    )
