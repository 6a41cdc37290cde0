"""Which listing of the venue a symbol means."""

from collections.abc import Iterable
from difflib import get_close_matches

from minara_core.actions import Side
from minara_core.lexicon import parse
from minara_core.reasons import DenialReason
from minara_tools.app.ports import Venue
from minara_tools.domain.assets import is_stablecoin
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.venue_terms import InstrumentRules
from minara_tools.toolsets.refusals import refused

_SHOWN_CANDIDATES = 6


async def listing_named(venue: Venue, text: str) -> InstrumentRules:
    """The one listing that `text` names: the venue's symbol, a ticker, or a name of the lexicon.
    A ticker or a name alone means the market against a stablecoin, where there is one.

    Raises ToolCallBlockedError (TOKEN_AMBIGUOUS), with candidates, when it is none or several.
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


async def market_between(
    venue: Venue, gives: str, takes: str
) -> tuple[InstrumentRules, Side, str, str]:
    """The one listing that joins two assets, which side of it leads from the first to the second,
    and the tickers of both.

    Raises ToolCallBlockedError: TOKEN_AMBIGUOUS for what is not one asset of the venue,
    MARKET_CLOSED where no listing joins them, with the two steps that would do.
    """
    listings = await venue.instruments()
    given, taken = (_asset_named(venue, listings, text) for text in (gives, takes))
    for one in listings:
        if (one.base, one.quote) == (given, taken):
            return one, Side.SELL, given, taken
        if (one.base, one.quote) == (taken, given):
            return one, Side.BUY, given, taken
    raise refused(
        DenialReason.MARKET_CLOSED,
        f"{venue.name} has no market between {given} and {taken}"
        + _two_steps(listings, given, taken),
        instrument=f"{given}/{taken}",
        venue=venue.name,
    )


def _asset_named(venue: Venue, listings: Iterable[InstrumentRules], text: str) -> str:
    assets = {asset for one in listings for asset in (one.base, one.quote)}
    plain = text.strip().removeprefix("$").upper()
    if plain in assets:
        return plain
    named = [symbol for symbol in parse(text).symbols if symbol in assets]
    if len(named) != 1:
        raise _unclear(text, venue, named)
    return named[0]


def _two_steps(listings: Iterable[InstrumentRules], given: str, taken: str) -> str:
    dollars = {one.base for one in listings if is_stablecoin(one.quote)}
    if given == taken or not {given, taken} <= dollars:
        return ""
    return f"; two steps would do: sell {given} first, then buy {taken} with what it brings"


def _unclear(text: str, venue: Venue, candidates: Iterable[str]) -> ToolCallBlockedError:
    shown = ", ".join(sorted(candidates)[:_SHOWN_CANDIDATES])
    hint = f"candidates: {shown}" if shown else "search_tokens finds names; ask which one is meant"
    return refused(
        DenialReason.TOKEN_AMBIGUOUS,
        f"{text[:40]!r} is not exactly one instrument of {venue.name}; {hint}",
        symbol=text[:40],
        candidates=shown,
    )
