"""Stage "slippage": at execution, the venue's quote of now against what the person was shown."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType

from minara_core.actions import MoveKind, Side, TimeInForce
from minara_core.money import add, canonical, multiply, subtract
from minara_core.reasons import DenialReason
from minara_core.taxonomy import AssetClass
from minara_tools.domain.assets import asset_class
from minara_tools.domain.exits import is_exit
from minara_tools.domain.funds import StageInput
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.venue_terms import VenueQuote
from minara_tools.domain.warning_codes import WarningCode

GATE = "slippage"
OLDEST_QUOTE = timedelta(seconds=5)
EXIT_BOUND = Decimal("0.01")

_ONE = Decimal(1)
_STRICTEST_BOUND = Decimal("0.01")
_BOUNDS: Mapping[AssetClass, Decimal] = MappingProxyType(
    {
        AssetClass.CRYPTO_MAJOR: Decimal("0.01"),
        AssetClass.CRYPTO_ALT: Decimal("0.03"),
        AssetClass.CRYPTO_MEME: Decimal("0.05"),
    }
)
_STRICTEST_IMPACT = Decimal("0.02")
_IMPACTS: Mapping[AssetClass, Decimal] = MappingProxyType(
    {
        AssetClass.CRYPTO_MAJOR: Decimal("0.02"),
        AssetClass.CRYPTO_ALT: Decimal("0.03"),
        AssetClass.CRYPTO_MEME: Decimal("0.05"),
    }
)


def slippage_bound(base: str, side: Side) -> Decimal:
    """How far, as a fraction, a fill may be worse than the preview. A sale is an exit: 1 %."""
    known = asset_class(base)
    if side is Side.SELL:
        return EXIT_BOUND
    return _STRICTEST_BOUND if known is None else _BOUNDS.get(known, _STRICTEST_BOUND)


def impact_limit(base: str) -> Decimal:
    """The largest price impact, as a fraction, that an order may have by its own size."""
    known = asset_class(base)
    return _STRICTEST_IMPACT if known is None else _IMPACTS.get(known, _STRICTEST_IMPACT)


def slippage(given: StageInput) -> tuple[str, ...]:
    """Denies QUOTE_STALE, SLIPPAGE_EXCEEDED and, for what is no exit, PRICE_IMPACT_EXCEEDED. An
    order that rests at its limit has no slippage, nor has what is no trade."""
    order = given.order
    if order.kind is not MoveKind.TRADE or order.time_in_force is TimeInForce.GTC:
        return ()
    quote = _usable_quote(given)
    _check_price(given, quote)
    is_thin = quote.quantity < order.quantity
    if is_exit(order):
        return (WarningCode.BOOK_TOO_THIN,) if is_thin else ()
    _check_impact(given, quote, is_thin=is_thin)
    return ()


def _usable_quote(given: StageInput) -> VenueQuote:
    quote, order = given.fresh, given.order
    age = None if quote is None else given.funds.time - quote.quote_time
    is_ours = quote is not None and (quote.instrument, quote.side) == (
        order.instrument.symbol,
        order.side,
    )
    if quote is None or age is None or not is_ours or abs(age) > OLDEST_QUOTE:
        raise ToolCallBlockedError(
            DenialReason.QUOTE_STALE,
            gate=GATE,
            message="the venue's quote is missing or older than 5 seconds; ask for a new preview",
            metadata={
                "age_seconds": "none" if age is None else f"{age.total_seconds():.1f}",
                "limit_seconds": str(int(OLDEST_QUOTE.total_seconds())),
            },
        )
    return quote


def _check_price(given: StageInput, quote: VenueQuote) -> None:
    shown, bound = given.preview.price, given.preview.slippage_bound
    if given.order.side is Side.BUY:
        worst = multiply(shown, add(_ONE, bound))
        is_worse = quote.average_price > worst
    else:
        worst = multiply(shown, subtract(_ONE, bound))
        is_worse = quote.average_price < worst
    if is_worse:
        raise ToolCallBlockedError(
            DenialReason.SLIPPAGE_EXCEEDED,
            gate=GATE,
            message=(
                f"the price is {canonical(quote.average_price)} now, past {canonical(worst)}, the "
                "worst that the preview allowed; ask for a new preview"
            ),
            metadata={
                "previewed": canonical(shown),
                "price": canonical(quote.average_price),
                "bound": canonical(bound),
            },
        )


def _check_impact(given: StageInput, quote: VenueQuote, *, is_thin: bool) -> None:
    limit = impact_limit(given.order.instrument.base)
    if quote.price_impact <= limit and not is_thin:
        return
    raise ToolCallBlockedError(
        DenialReason.PRICE_IMPACT_EXCEEDED,
        gate=GATE,
        message=(
            f"an order of this size would move the price of {given.order.instrument.symbol} too "
            "far; ask for a smaller amount"
        ),
        metadata={
            "impact": canonical(quote.price_impact),
            "limit": canonical(limit),
            "depth": canonical(quote.quantity),
        },
    )
