"""What the paper venue makes of one trade order against one book; pure functions."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from minara_core.actions import (
    MarginMode,
    MoveKind,
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
from minara_tools.adapters.venue_paper_book import (
    MAKER_FEE,
    Fills,
    Level,
    Stop,
    booked,
    take,
)
from minara_tools.adapters.venue_paper_listings import Listing

DUPLICATE_CLIENT_ID = "DUPLICATE_CLIENT_ID"
ORDER_UNSUPPORTED = "ORDER_UNSUPPORTED"
ORDER_NOT_FOUND = "ORDER_NOT_FOUND"
FEE_EXCEEDS_MAX = "FEE_EXCEEDS_MAX"
SPEND_EXCEEDS_MAX = "SPEND_EXCEEDS_MAX"
QUANTITY_ABOVE_MAX = "QUANTITY_ABOVE_MAX"
CANCELLED_ON_REQUEST = "CANCELLED_ON_REQUEST"
_ZERO = Decimal(0)
_NO_FILLS = Fills()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An order as the venue keeps it. `held` is what it still holds of its spent asset; `book_met`
    names the last book it took from, so that no book serves it twice."""

    order: ResolvedOrder
    placed: PlacedOrder
    fills: Fills = _NO_FILLS
    held: Decimal = _ZERO
    book_met: str = ""
    end_time: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.placed.state is PlacedState.OPEN


def refusal(order: ResolvedOrder, listing: Listing | None) -> str | None:
    """Why the venue takes no such trade, whatever the price; None if it does."""
    if listing is None or not (_is_plain(order) and _is_consistent(order, listing)):
        return ORDER_UNSUPPORTED
    rules = listing.rules
    if order.quantity <= 0:
        return DenialReason.QUANTITY_ROUNDS_TO_ZERO
    limit = order.limit_price
    if limit <= 0 or quantize(limit, rules.price_increment, Rounding.DOWN) != limit:
        return DenialReason.PRICE_PRECISION
    if quantize(order.quantity, rules.quantity_increment, Rounding.DOWN) != order.quantity:
        return ORDER_UNSUPPORTED
    return _size_refusal(order, listing)


def fill_at_once(recorded: Recorded, listing: Listing, levels: tuple[Level, ...]) -> Recorded:
    """Fill at once what the bound allows; the rest is cancelled, or rests with its money held."""
    order = recorded.order
    rests = order.time_in_force is TimeInForce.GTC
    best = order.limit_price if rests else (levels[0].price if levels else _ZERO)
    if multiply(order.quantity, best) < listing.rules.min_notional:
        return _ended(recorded, PlacedState.REJECTED, DenialReason.QUANTITY_BELOW_MIN)
    taken = take(
        listing,
        levels,
        order.side,
        order.quantity,
        limit=order.limit_price,
        budget=None if rests else order.max_spend,
    )
    # A sale so small that its fee would eat it is no fill.
    is_fill = taken.quantity > 0 and booked(listing, order.side, taken.fills).received >= 0
    filled = with_fills(recorded, listing, taken.fills) if is_fill else recorded
    if rests:
        return _resting(filled, listing)
    if filled.placed.fee > order.max_fee:
        return _ended(recorded, PlacedState.REJECTED, FEE_EXCEEDS_MAX)
    if not is_fill:
        return _ended(recorded, PlacedState.CANCELLED, DenialReason.SLIPPAGE_EXCEEDED)
    # A purchase that has spent its money is whole: money is what bounded it, not the market.
    if taken.stop in {Stop.DONE, Stop.SPENT}:
        return _ended(filled, PlacedState.FILLED, "")
    return _ended(filled, PlacedState.CANCELLED, f"REST_CANCELLED_{taken.stop.name}")


def fill_resting(recorded: Recorded, listing: Listing, quantity: Decimal) -> Recorded:
    """The resting order after `quantity` of it was filled at its limit price, as a maker. What it
    held for that is spent; the order is over when nothing is left."""
    order = recorded.order
    turnover = multiply(quantity, order.limit_price)
    fills = recorded.fills.plus(listing, order.side, quantity, turnover, MAKER_FEE)
    after = with_fills(recorded, listing, fills)
    if subtract(after.placed.received, recorded.placed.received) < 0:
        return recorded
    spent = subtract(after.placed.spent, recorded.placed.spent)
    after = replace(after, held=subtract(recorded.held, spent))
    if fills.quantity == order.quantity:
        return _ended(after, PlacedState.FILLED, "")
    return after


def with_fills(recorded: Recorded, listing: Listing, fills: Fills) -> Recorded:
    sums = booked(listing, recorded.order.side, fills)
    placed = replace(
        recorded.placed,
        filled_quantity=fills.quantity,
        average_price=sums.average_price,
        spent=sums.spent,
        received=sums.received,
        fee=sums.fee,
    )
    return replace(recorded, placed=placed, fills=fills)


def cancelled(recorded: Recorded) -> Recorded:
    """The order, ended by a request; what was filled stays, what was held is free."""
    return _ended(recorded, PlacedState.CANCELLED, CANCELLED_ON_REQUEST)


def rejected(recorded: Recorded, reason: str) -> Recorded:
    """The order, refused; nothing of it was filled."""
    return _ended(recorded, PlacedState.REJECTED, reason)


def new_order(order: ResolvedOrder, client_order_id: str, now: datetime) -> Recorded:
    """An order that has arrived and of which nothing is decided."""
    base, quote = order.instrument.base, order.instrument.quote
    spends, brings = (quote, base) if order.side is Side.BUY else (base, quote)
    if order.kind in {MoveKind.TRANSFER, MoveKind.WITHDRAWAL}:
        spends = brings = base
    placed = PlacedOrder(
        client_order_id=client_order_id,
        venue_order_id=_venue_order_id(order.account, client_order_id),
        state=PlacedState.OPEN,
        filled_quantity=_ZERO,
        average_price=_ZERO,
        spent=_ZERO,
        spent_asset=spends,
        received=_ZERO,
        received_asset=brings,
        fee=_ZERO,
        fee_asset=order.max_fee_asset,
        instrument=order.instrument.symbol,
        side=order.side,
        quantity=order.quantity,
        limit_price=order.limit_price,
        create_time=now,
    )
    return Recorded(order=order, placed=placed)


def _resting(filled: Recorded, listing: Listing) -> Recorded:
    """`filled` with the rest of the order resting, if its bounds cover the worst that can come."""
    order, side = filled.order, filled.order.side
    rest = subtract(order.quantity, filled.fills.quantity)
    turnover = multiply(rest, order.limit_price)
    whole = booked(listing, side, filled.fills.plus(listing, side, rest, turnover, MAKER_FEE))
    nothing = new_order(order, filled.placed.client_order_id, _created(filled))
    if whole.fee > order.max_fee:
        return rejected(nothing, FEE_EXCEEDS_MAX)
    if whole.spent > order.max_spend:
        return rejected(nothing, SPEND_EXCEEDS_MAX)
    if rest == 0:
        return _ended(filled, PlacedState.FILLED, "")
    return replace(filled, held=subtract(whole.spent, filled.placed.spent))


def _created(recorded: Recorded) -> datetime:
    assert recorded.placed.create_time is not None
    return recorded.placed.create_time


def _ended(recorded: Recorded, state: PlacedState, reason: str) -> Recorded:
    return replace(
        recorded, placed=replace(recorded.placed, state=state, reason=reason), held=_ZERO
    )


def _is_plain(order: ResolvedOrder) -> bool:
    is_resting = order.time_in_force is TimeInForce.GTC
    return (
        order.order_type in ({OrderType.LIMIT} if is_resting else set(OrderType))
        and order.quantity_unit is QuantityUnit.BASE
        and order.margin_mode is MarginMode.NONE
        and order.leverage == 1
        and not (order.recipient or order.memo or order.cancels)
    )


def _is_consistent(order: ResolvedOrder, listing: Listing) -> bool:
    rules = listing.rules
    spends = rules.quote if order.side is Side.BUY else rules.base
    return (
        (order.instrument.base, order.instrument.quote) == (rules.base, rules.quote)
        and order.max_spend_asset == spends
        and order.max_fee_asset == listing.fee_asset(order.side)
        and (order.side is Side.BUY or order.max_spend >= order.quantity)
    )


def _size_refusal(order: ResolvedOrder, listing: Listing) -> str | None:
    rules = listing.rules
    if order.quantity < rules.min_quantity:
        return DenialReason.QUANTITY_BELOW_MIN
    notional = multiply(order.quantity, order.limit_price)
    if rules.max_quantity is not None and order.quantity > rules.max_quantity:
        return QUANTITY_ABOVE_MAX
    if rules.max_notional is not None and notional > rules.max_notional:
        return QUANTITY_ABOVE_MAX
    return None


def most_taken(order: ResolvedOrder) -> Decimal:
    """What an order needs to be free of its spent asset: the most it may take, fee included."""
    return order.max_spend if order.side is Side.BUY else order.quantity


def opened_hold(recorded: Recorded) -> Decimal:
    """What a new order takes out of the free balance: what it spent and what it holds."""
    return add(recorded.placed.spent, recorded.held)


def _venue_order_id(account: str, client_order_id: str) -> str:
    digest = hashlib.sha256(f"{account}\x1f{client_order_id}".encode()).hexdigest()
    return f"paper-{digest[:20]}"
