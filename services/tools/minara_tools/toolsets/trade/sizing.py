"""From an amount in words to a quantity the venue takes, and the venue's quote for it."""

from decimal import Decimal

from minara_core.actions import Side
from minara_core.money import Rounding, add, canonical, divide, multiply, quantize
from minara_core.reasons import DenialReason
from minara_tools.app.ports import Venue
from minara_tools.domain.assets import is_stablecoin
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.stage_slippage import impact_limit
from minara_tools.domain.venue_terms import InstrumentRules, VenueQuote
from minara_tools.toolsets.refusals import refused

_REFINEMENTS = 6
_HUNDRED = Decimal(100)


async def quote_for_quantity(
    venue: Venue, rules: InstrumentRules, side: Side, quantity: Decimal
) -> VenueQuote:
    """The quote for `quantity` of the base asset, rounded down to the venue's increment; of a sale
    into money, for as much of it as the book holds.

    Raises ToolCallBlockedError (QUANTITY_ROUNDS_TO_ZERO, QUANTITY_BELOW_MIN,
    PRICE_IMPACT_EXCEEDED), and what the venue's `quote` raises.
    """
    rounded = quantize(quantity, rules.quantity_increment, Rounding.DOWN)
    if rounded <= 0:
        raise rounds_to_zero(rules, quantity)
    quote = await venue.quote(rules.symbol, side, rounded)
    _check_minimum(rules, min(rounded, quote.quantity), quote)
    _check_depth(rules, rounded, quote)
    return quote


async def quote_for_money(
    venue: Venue, rules: InstrumentRules, side: Side, money: Decimal
) -> VenueQuote:
    """The quote for as much of the base asset as `money` of the quote asset buys, fee included, or
    as brings in `money` before the fee when it is sold. Raises as `quote_for_quantity`.
    """
    probe = await venue.quote(rules.symbol, side, rules.quantity_increment)
    increment = rules.quantity_increment
    quantity = quantize(divide(money, probe.best_price), increment, Rounding.DOWN)
    best: VenueQuote | None = None
    for _ in range(_REFINEMENTS):
        if quantity <= 0 or (best is not None and quantity <= best.quantity):
            break
        quote = await venue.quote(rules.symbol, side, quantity)
        _check_depth(rules, quantity, quote)
        turnover = money_of(quote)
        if turnover <= money:
            best = quote
        scaled = divide(multiply(quantity, money), turnover)
        refined = quantize(scaled, increment, Rounding.DOWN)
        quantity = (
            add(quantity, -increment) if turnover > money and refined == quantity else refined
        )
    if best is None:
        raise rounds_to_zero(rules, divide(money, probe.best_price))
    _check_minimum(rules, best.quantity, best)
    return best


def money_of(quote: VenueQuote) -> Decimal:
    """The quote asset's side of a trade: what a purchase costs with its fee, what a sale brings
    before it."""
    return quote.cost if quote.side is Side.BUY else add(quote.receipt, quote.fee)


def rounds_to_zero(rules: InstrumentRules, quantity: Decimal) -> ToolCallBlockedError:
    step = canonical(rules.quantity_increment)
    return refused(
        DenialReason.QUANTITY_ROUNDS_TO_ZERO,
        f"this is less than the smallest step of {rules.symbol}, {step} {rules.base}",
        quantity=canonical(quantity),
        increment=step,
    )


def _check_minimum(rules: InstrumentRules, quantity: Decimal, quote: VenueQuote) -> None:
    value, minimum, asset = quantity, rules.min_quantity, rules.base
    if value >= minimum:
        value, minimum, asset = money_of(quote), rules.min_notional, rules.quote
    if value < minimum:
        raise refused(
            DenialReason.QUANTITY_BELOW_MIN,
            f"{rules.symbol} takes orders from {canonical(rules.min_quantity)} {rules.base} and "
            f"{canonical(rules.min_notional)} {rules.quote} on",
            value=canonical(value),
            minimum=canonical(minimum),
            asset=asset,
        )


def _check_depth(rules: InstrumentRules, quantity: Decimal, quote: VenueQuote) -> None:
    limit = impact_limit(rules.base)
    # A sale into money is an exit, which its own size must not close: its limit price bounds it,
    # and what the book does not hold stays for the next one.
    is_exit = quote.side is Side.SELL and is_stablecoin(rules.quote)
    if quote.quantity < quantity and not (is_exit and quote.quantity > 0):
        message = (
            f"the book of {rules.symbol} holds {canonical(quote.quantity)} {rules.base} at most; "
            "ask for a smaller amount"
        )
    elif not is_exit and quote.price_impact > limit:
        message = (
            f"an order of this size would move the price of {rules.symbol} by more than "
            f"{canonical(multiply(limit, _HUNDRED))} %; ask for a smaller amount"
        )
    else:
        return
    raise refused(
        DenialReason.PRICE_IMPACT_EXCEEDED,
        message,
        impact=canonical(quote.price_impact),
        limit=canonical(limit),
        depth=canonical(quote.quantity),
    )
