"""What the paper venue lists, with its limits, the depth of its books and the asset of its fees."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from minara_core.actions import Side
from minara_core.lexicon_tables import asset_table
from minara_core.money import divide, parse_amount
from minara_tools.domain.venue_terms import InstrumentRules

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
    """`money_step` and `base_step` are what amounts of the quote and of the base asset are rounded
    to."""

    rules: InstrumentRules
    depth: Depth
    money_step: Decimal
    base_step: Decimal
    buys_pay_in_base: bool

    def fee_in_base(self, side: Side) -> bool:
        return side is Side.BUY and self.buys_pay_in_base

    def fee_asset(self, side: Side) -> str:
        return self.rules.base if self.fee_in_base(side) else self.rules.quote

    def fee_step(self, side: Side) -> Decimal:
        return self.base_step if self.fee_in_base(side) else self.money_step


@cache
def paper_listings() -> Mapping[str, Listing]:
    """All listings by symbol."""
    raw = _read()
    listings = [
        _listing(raw, base, group["quote"], group["magnitude"])
        for group in raw["listings"]
        for base in group["bases"]
    ]
    return MappingProxyType({listing.rules.symbol: listing for listing in listings})


def asset_step(asset: str) -> Decimal:
    """The smallest step of a balance of `asset`."""
    return _steps().get(asset, _steps()["other"])


@cache
def _read() -> Mapping[str, Any]:
    path = files("minara_tools") / "adapters" / "venue_paper_listings.toml"
    return MappingProxyType(tomllib.loads(path.read_text(encoding="utf-8")))


@cache
def _steps() -> Mapping[str, Decimal]:
    steps = {asset: parse_amount(text) for asset, text in _read()["steps"].items()}
    return MappingProxyType(steps)


def _listing(raw: Mapping[str, Any], base: str, quote: str, magnitude: int) -> Listing:
    asset_class = asset_table().classes[base].value
    terms = raw["quotes"][quote]
    dollars = _ONE.scaleb(terms["magnitude"])
    depth = {name: parse_amount(text) for name, text in raw["depth"][asset_class].items()}
    largest = divide(parse_amount(raw["largest"][asset_class]), dollars)
    step = _ONE.scaleb(-magnitude - _QUANTITY_DIGITS - terms["magnitude"])
    return Listing(
        rules=InstrumentRules(
            symbol=f"{base}/{quote}",
            base=base,
            quote=quote,
            quantity_increment=step,
            price_increment=min(_COARSEST_PRICE, _ONE.scaleb(magnitude - _PRICE_DIGITS)),
            min_quantity=step,
            min_notional=parse_amount(terms["min_notional"]),
            max_quantity=largest.scaleb(-magnitude),
            max_notional=largest,
        ),
        depth=Depth(**depth | {"first_level": divide(depth["first_level"], dollars)}),
        money_step=asset_step(quote),
        base_step=asset_step(base),
        buys_pay_in_base=terms["buys_pay_in_base"],
    )
