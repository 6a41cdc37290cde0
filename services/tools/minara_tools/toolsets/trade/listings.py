"""Which listing of the venue a symbol means, and how far its price may run."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from types import MappingProxyType

from minara_core.actions import Side
from minara_core.lexicon import parse
from minara_core.reasons import DenialReason
from minara_core.taxonomy import AssetClass
from minara_tools.app.ports import InstrumentRules, Venue
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.toolsets.figures import asset_class

_SHOWN_CANDIDATES = 6
_STRICTEST = Decimal("0.01")
_EXIT_BOUND = Decimal("0.01")
_BOUNDS: Mapping[AssetClass, Decimal] = MappingProxyType(
    {
        AssetClass.CRYPTO_MAJOR: Decimal("0.01"),
        AssetClass.CRYPTO_ALT: Decimal("0.03"),
        AssetClass.CRYPTO_MEME: Decimal("0.05"),
    }
)
_IMPACTS: Mapping[AssetClass, Decimal] = MappingProxyType(
    {
        AssetClass.CRYPTO_MAJOR: Decimal("0.02"),
        AssetClass.CRYPTO_ALT: Decimal("0.03"),
        AssetClass.CRYPTO_MEME: Decimal("0.05"),
    }
)
_STRICTEST_IMPACT = Decimal("0.02")


def slippage_bound(base: str, side: Side) -> Decimal:
    """How far, as a fraction, a fill may be worse than the preview. A sale is an exit: 1 %."""
    if side is Side.SELL:
        return _EXIT_BOUND
    known = asset_class(base)
    return _STRICTEST if known is None else _BOUNDS.get(known, _STRICTEST)


def impact_limit(base: str) -> Decimal:
    """The largest price impact, as a fraction, that a purchase may have by its own size."""
    known = asset_class(base)
    return _STRICTEST_IMPACT if known is None else _IMPACTS.get(known, _STRICTEST_IMPACT)


async def listing_named(venue: Venue, text: str) -> InstrumentRules:
    """The one listing that `text` names: the venue's symbol, a ticker, or a name of the lexicon.

    Raises ToolFailed (TOKEN_AMBIGUOUS), with candidates, when it is none or several.
    """
    listings = await venue.instruments()
    plain = text.strip().removeprefix("$").upper().replace("-", "/")
    found = [one for one in listings if plain in {one.symbol.upper(), one.base.upper()}]
    if not found:
        named = set(parse(text).symbols)
        found = [one for one in listings if one.base in named]
        if len(named) > 1:
            raise _unclear(text, venue, (one.symbol for one in found))
    if len(found) != 1:
        raise _unclear(text, venue, [one.symbol for one in found] or _alike(plain, listings))
    return found[0]


def _alike(plain: str, listings: tuple[InstrumentRules, ...]) -> list[str]:
    symbol_of = {one.base.upper(): one.symbol for one in listings}
    base = plain.partition("/")[0]
    return [symbol_of[near] for near in get_close_matches(base, symbol_of, n=3)]


def _unclear(text: str, venue: Venue, candidates: Iterable[str]) -> ToolFailed:
    shown = ", ".join(sorted(candidates)[:_SHOWN_CANDIDATES])
    hint = f"candidates: {shown}" if shown else "search_tokens finds names; ask which one is meant"
    return ToolFailed(
        DenialReason.TOKEN_AMBIGUOUS,
        f"{text[:40]!r} is not exactly one instrument of {venue.name}; {hint}",
    )
