"""Which listing of the venue a symbol means."""

from collections.abc import Iterable
from difflib import get_close_matches

from minara_core.lexicon import parse
from minara_core.reasons import DenialReason
from minara_tools.app.ports import Venue
from minara_tools.domain.assets import is_stablecoin
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import InstrumentRules

_SHOWN_CANDIDATES = 6


async def listing_named(venue: Venue, text: str) -> InstrumentRules:
    """The one listing that `text` names: the venue's symbol, a ticker, or a name of the lexicon.
    A ticker or a name alone means the market against a stablecoin, where there is one.

    Raises ToolFailed (TOKEN_AMBIGUOUS), with candidates, when it is none or several.
    """
    listings = await venue.instruments()
    plain = text.strip().removeprefix("$").upper().replace("-", "/")
    found = [one for one in listings if one.symbol.upper() == plain] or _in_dollars(
        one for one in listings if one.base.upper() == plain
    )
    if not found:
        named = set(parse(text).symbols)
        found = _in_dollars(one for one in listings if one.base in named)
        if len(named) > 1:
            raise _unclear(text, venue, (one.symbol for one in found))
    if len(found) != 1:
        raise _unclear(text, venue, [one.symbol for one in found] or _alike(plain, listings))
    return found[0]


def _in_dollars(listings: Iterable[InstrumentRules]) -> list[InstrumentRules]:
    found = list(listings)
    return [one for one in found if is_stablecoin(one.quote)] or found


def _alike(plain: str, listings: tuple[InstrumentRules, ...]) -> list[str]:
    symbol_of = {one.base.upper(): one.symbol for one in _in_dollars(listings)}
    base = plain.partition("/")[0]
    return [symbol_of[near] for near in get_close_matches(base, symbol_of, n=3)]


def _unclear(text: str, venue: Venue, candidates: Iterable[str]) -> ToolFailed:
    shown = ", ".join(sorted(candidates)[:_SHOWN_CANDIDATES])
    hint = f"candidates: {shown}" if shown else "search_tokens finds names; ask which one is meant"
    return ToolFailed(
        DenialReason.TOKEN_AMBIGUOUS,
        f"{text[:40]!r} is not exactly one instrument of {venue.name}; {hint}",
    )
