"""The paper venue's order book, what a taker gets from it, and what a resting order gets later.

Pure functions. The book is made anew around the reference price for each order; its levels lie
further out and hold more the deeper they are. An order's sums stay exact and are rounded once, as a
whole, never in favour of the account: many small fills cost no more rounding than one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from minara_core.actions import Side
from minara_core.money import Rounding, add, divide, multiply, quantize, subtract
from minara_tools.adapters.venue_paper_listings import Listing

TAKER_FEE = Decimal("0.001")
MAKER_FEE = Decimal("0.0005")
LEVELS = 30

_ZERO = Decimal(0)
_ONE = Decimal(1)
_STEPS_OF_ROOM = Decimal(3)
"""Cost and fee each round up by less than one step; one more is spare."""
_AVERAGE_DIGITS = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    price: Decimal
    quantity: Decimal


class Stop(StrEnum):
    """Why a taker stopped: all taken, the money is spent, the price bound, or an empty book."""

    DONE = "done"
    SPENT = "spent"
    BOUND = "bound"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fills:
    """What an order has had so far, exactly: base quantity, turnover in the quote asset before the
    fee, and the fee in its asset."""

    quantity: Decimal = _ZERO
    turnover: Decimal = _ZERO
    fee: Decimal = _ZERO

    def plus(
        self, listing: Listing, side: Side, quantity: Decimal, turnover: Decimal, rate: Decimal
    ) -> "Fills":
        """With `quantity` more, charged at `rate`."""
        charged = quantity if listing.fee_in_base(side) else turnover
        return Fills(
            quantity=add(self.quantity, quantity),
            turnover=add(self.turnover, turnover),
            fee=add(self.fee, multiply(charged, rate)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What leaves and what arrives for an order's fills. `turnover` is the quote asset's side
    before the fee; `spent` and `received` have the fee in them where its asset is theirs."""

    turnover: Decimal
    fee: Decimal
    spent: Decimal
    received: Decimal
    average_price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """`turnover` and `fee` are rounded against the account; `fills` is exact."""

    quantity: Decimal
    turnover: Decimal
    fee: Decimal
    average_price: Decimal
    stop: Stop
    fills: Fills


def booked(listing: Listing, side: Side, fills: Fills) -> Booked:
    """The rounded amounts of all of an order's fills together."""
    against = Rounding.UP if side is Side.BUY else Rounding.DOWN
    turnover = quantize(fills.turnover, listing.money_step, against)
    fee = quantize(fills.fee, listing.fee_step(side), Rounding.UP)
    if side is Side.SELL:
        spent, received = fills.quantity, subtract(turnover, fee)
    elif listing.fee_in_base(side):
        spent, received = turnover, subtract(fills.quantity, fee)
    else:
        spent, received = add(turnover, fee), fills.quantity
    average = _ZERO
    if fills.quantity > 0:
        step = multiply(listing.rules.price_increment, _AVERAGE_DIGITS)
        average = quantize(divide(fills.turnover, fills.quantity), step, against)
    return Booked(turnover=turnover, fee=fee, spent=spent, received=received, average_price=average)


def book_side(listing: Listing, reference: Decimal, side: Side) -> tuple[Level, ...]:
    """What a taker of `side` meets, best level first: asks for a purchase, bids for a sale."""
    rules, depth = listing.rules, listing.depth
    sign, rounding = (1, Rounding.UP) if side is Side.BUY else (-1, Rounding.DOWN)
    levels: list[Level] = []
    distance, money = depth.half_spread, depth.first_level
    for _ in range(LEVELS):
        factor = add(_ONE, multiply(Decimal(sign), distance))
        price = quantize(multiply(reference, factor), rules.price_increment, rounding)
        if price <= 0:
            break
        size = quantize(divide(money, price), rules.quantity_increment, Rounding.DOWN)
        levels.append(Level(price=price, quantity=size))
        distance, money = add(distance, depth.step), multiply(money, depth.growth)
    return tuple(levels)


def take(
    listing: Listing,
    levels: Sequence[Level],
    side: Side,
    quantity: Decimal,
    *,
    limit: Decimal | None = None,
    budget: Decimal | None = None,
) -> Taken:
    """Take up to `quantity` of the base asset, none worse than `limit`; a purchase spends no more
    than `budget`, with the fee where that is charged in the same asset."""
    taken = _walk(listing, levels, side, quantity, limit=limit, money=None)
    if budget is None or side is Side.SELL or _spent(listing, side, taken) <= budget:
        return taken
    room = subtract(budget, multiply(_STEPS_OF_ROOM, listing.money_step))
    rate = _ZERO if listing.fee_in_base(side) else TAKER_FEE
    money = divide(room, add(_ONE, rate))
    return _walk(listing, levels, side, quantity, limit=limit, money=money)


def crossing(
    listing: Listing, reference: Decimal, side: Side, limit: Decimal, rest: Decimal
) -> Decimal:
    """How much of a resting order's `rest` is filled when the reference price is `reference`: none
    before that crosses `limit`, then what the book on the other side holds up to it."""
    if is_beyond(reference, limit, side):
        return _ZERO
    levels = book_side(listing, reference, side)
    if not levels:
        return _ZERO
    within = [level.quantity for level in levels if not is_beyond(level.price, limit, side)]
    offered = levels[0].quantity
    if within:
        offered = _ZERO
        for size in within:
            offered = add(offered, size)
    return min(rest, offered)


def is_beyond(price: Decimal, limit: Decimal, side: Side) -> bool:
    """Whether `price` is worse than `limit` for an order of `side`."""
    return price > limit if side is Side.BUY else price < limit


def _spent(listing: Listing, side: Side, taken: Taken) -> Decimal:
    return booked(listing, side, taken.fills).spent


def _walk(
    listing: Listing,
    levels: Sequence[Level],
    side: Side,
    quantity: Decimal,
    *,
    limit: Decimal | None,
    money: Decimal | None,
) -> Taken:
    filled = turnover = _ZERO
    stop = Stop.EMPTY
    for level in levels:
        if limit is not None and is_beyond(level.price, limit, side):
            stop = Stop.BOUND
            break
        part = min(level.quantity, subtract(quantity, filled))
        if money is not None:
            buys = divide(subtract(money, turnover), level.price)
            affordable = quantize(buys, listing.rules.quantity_increment, Rounding.DOWN)
            if affordable < part:
                part, stop = max(_ZERO, affordable), Stop.SPENT
        filled, turnover = add(filled, part), add(turnover, multiply(part, level.price))
        if filled == quantity:
            stop = Stop.DONE
        if stop in {Stop.SPENT, Stop.DONE}:
            break
    return _taken(listing, side, filled, turnover, stop)


def _taken(listing: Listing, side: Side, filled: Decimal, turnover: Decimal, stop: Stop) -> Taken:
    fills = Fills().plus(listing, side, filled, turnover, TAKER_FEE)
    sums = booked(listing, side, fills)
    return Taken(
        quantity=filled,
        turnover=sums.turnover,
        fee=sums.fee,
        average_price=sums.average_price,
        stop=stop,
        fills=fills,
    )
