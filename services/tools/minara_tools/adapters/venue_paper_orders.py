"""What the paper venue makes of one order against one book; pure functions."""

import hashlib
from dataclasses import dataclass, replace
from decimal import Decimal

from minara_core.actions import (
    MarginMode,
    OrderType,
    PlacedOrder,
    PlacedState,
    QuantityUnit,
    ResolvedOrder,
    Side,
    TimeInForce,
)
from minara_core.money import Rounding, add, multiply, quantize, subtract
from minara_core.reasons import DenialReason
from minara_tools.adapters.venue_paper_book import Level, Stop, Taken, take
from minara_tools.adapters.venue_paper_listings import Listing

DUPLICATE_CLIENT_ID = "DUPLICATE_CLIENT_ID"
ORDER_UNSUPPORTED = "ORDER_UNSUPPORTED"
FEE_EXCEEDS_MAX = "FEE_EXCEEDS_MAX"
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A placed order and what it adds to the account's two assets (negative: takes away)."""

    placed: PlacedOrder
    base: Decimal = _ZERO
    quote: Decimal = _ZERO


def hold_of(order: ResolvedOrder) -> tuple[str, Decimal]:
    """The asset and the amount an order needs to be free: the most it may take, fee included."""
    if order.side is Side.BUY:
        return order.instrument.quote, order.max_spend
    return order.instrument.base, order.quantity


def refusal(order: ResolvedOrder, listing: Listing | None) -> str | None:
    """Why the venue takes no such order, whatever the price; None if it does."""
    if listing is None or not _is_plain(order, listing):
        return ORDER_UNSUPPORTED
    increment, tick = listing.rules.quantity_increment, listing.rules.price_increment
    if order.quantity <= 0:
        return DenialReason.QUANTITY_ROUNDS_TO_ZERO
    if order.limit_price <= 0 or quantize(order.limit_price, tick, Rounding.DOWN) != (
        order.limit_price
    ):
        return DenialReason.PRICE_PRECISION
    if quantize(order.quantity, increment, Rounding.DOWN) != order.quantity:
        return ORDER_UNSUPPORTED
    return DenialReason.QUANTITY_BELOW_MIN if order.quantity < listing.rules.min_quantity else None


def fill(
    order: ResolvedOrder, client_order_id: str, listing: Listing, levels: tuple[Level, ...]
) -> Changes:
    """Fill at once what the bound allows and cancel the rest."""
    if not levels or multiply(order.quantity, levels[0].price) < listing.rules.min_notional:
        return Changes(placed=rejected(order, client_order_id, DenialReason.QUANTITY_BELOW_MIN))
    taken = take(
        listing,
        levels,
        order.side,
        order.quantity,
        limit=order.limit_price,
        budget=order.max_spend,
    )
    if taken.fee > order.max_fee:
        return Changes(placed=rejected(order, client_order_id, FEE_EXCEEDS_MAX))
    if taken.quantity == 0:
        reason = DenialReason.SLIPPAGE_EXCEEDED
        nothing = _placed(order, client_order_id, PlacedState.CANCELLED, reason)
        return Changes(placed=nothing)
    return _booked(order, client_order_id, taken)


def rejected(order: ResolvedOrder, client_order_id: str, reason: str) -> PlacedOrder:
    """The order, refused; nothing of it was filled."""
    return _placed(order, client_order_id, PlacedState.REJECTED, reason)


def _is_plain(order: ResolvedOrder, listing: Listing) -> bool:
    rules = listing.rules
    spends = rules.quote if order.side is Side.BUY else rules.base
    return (
        (order.instrument.base, order.instrument.quote) == (rules.base, rules.quote)
        and order.order_type in {OrderType.MARKET, OrderType.LIMIT}
        and order.time_in_force is TimeInForce.IOC
        and order.quantity_unit is QuantityUnit.BASE
        and order.margin_mode is MarginMode.NONE
        and order.leverage == 1
        and not order.recipient
        and order.max_spend_asset == spends
        and order.max_fee_asset == rules.quote
        and (order.side is Side.BUY or order.max_spend >= order.quantity)
    )


def _booked(order: ResolvedOrder, client_order_id: str, taken: Taken) -> Changes:
    # A purchase that has spent its money is whole: money is what bounded it, not the market.
    is_whole = taken.stop in {Stop.DONE, Stop.SPENT}
    state = PlacedState.FILLED if is_whole else PlacedState.CANCELLED
    reason = "" if is_whole else f"REST_CANCELLED_{taken.stop.name}"
    if order.side is Side.BUY:
        spent, received = add(taken.turnover, taken.fee), taken.quantity
        base, quote = received, subtract(_ZERO, spent)
    else:
        spent, received = taken.quantity, subtract(taken.turnover, taken.fee)
        base, quote = subtract(_ZERO, spent), received
    placed = replace(
        _placed(order, client_order_id, state, reason),
        filled_quantity=taken.quantity,
        average_price=taken.average_price,
        spent=spent,
        received=received,
        fee=taken.fee,
    )
    return Changes(placed=placed, base=base, quote=quote)


def _placed(
    order: ResolvedOrder, client_order_id: str, state: PlacedState, reason: str
) -> PlacedOrder:
    spends, brings = order.instrument.quote, order.instrument.base
    if order.side is Side.SELL:
        spends, brings = brings, spends
    return PlacedOrder(
        client_order_id=client_order_id,
        venue_order_id=_venue_order_id(order.account, client_order_id),
        state=state,
        filled_quantity=_ZERO,
        average_price=_ZERO,
        spent=_ZERO,
        spent_asset=spends,
        received=_ZERO,
        received_asset=brings,
        fee=_ZERO,
        fee_asset=order.instrument.quote,
        reason=reason,
    )


def _venue_order_id(account: str, client_order_id: str) -> str:
    digest = hashlib.sha256(f"{account}\x1f{client_order_id}".encode()).hexdigest()
    return f"paper-{digest[:20]}"
