"""The paper venue's order book and what a taker gets from it; pure functions.

The book is made anew around the reference price for each order; its levels lie further out and
hold more the deeper they are. Rounding is never in favour of the account.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from minara_core.actions import Side
from minara_core.money import Rounding, add, divide, multiply, quantize, subtract
from minara_tools.adapters.venue_paper_listings import Listing

TAKER_FEE = Decimal("0.001")
MONEY_STEP = Decimal("0.000001")
LEVELS = 30

_ONE = Decimal(1)
_ROUNDING_ROOM = multiply(Decimal(3), MONEY_STEP)
"""Cost and fee each round up by less than one step, and the fee once more for the cost's."""
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
class Taken:
    """`turnover` is the quote asset's side before the fee, rounded against the account."""

    quantity: Decimal
    turnover: Decimal
    fee: Decimal
    average_price: Decimal
    stop: Stop


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
    than `budget`, fee included."""
    taken = _walk(listing, levels, side, quantity, limit=limit, money=None)
    if budget is None or side is Side.SELL or add(taken.turnover, taken.fee) <= budget:
        return taken
    money = divide(subtract(budget, _ROUNDING_ROOM), add(_ONE, TAKER_FEE))
    return _walk(listing, levels, side, quantity, limit=limit, money=money)


def _walk(
    listing: Listing,
    levels: Sequence[Level],
    side: Side,
    quantity: Decimal,
    *,
    limit: Decimal | None,
    money: Decimal | None,
) -> Taken:
    filled = turnover = Decimal(0)
    stop = Stop.EMPTY
    for level in levels:
        if limit is not None and _is_beyond(level.price, limit, side):
            stop = Stop.BOUND
            break
        part = min(level.quantity, subtract(quantity, filled))
        if money is not None:
            buys = divide(subtract(money, turnover), level.price)
            affordable = quantize(buys, listing.rules.quantity_increment, Rounding.DOWN)
            if affordable < part:
                part, stop = max(Decimal(0), affordable), Stop.SPENT
        filled, turnover = add(filled, part), add(turnover, multiply(part, level.price))
        if filled == quantity:
            stop = Stop.DONE
        if stop in {Stop.SPENT, Stop.DONE}:
            break
    return _settled(listing, side, filled, turnover, stop)


def _is_beyond(price: Decimal, limit: Decimal, side: Side) -> bool:
    return price > limit if side is Side.BUY else price < limit


def _settled(listing: Listing, side: Side, filled: Decimal, turnover: Decimal, stop: Stop) -> Taken:
    against = Rounding.UP if side is Side.BUY else Rounding.DOWN
    rounded = quantize(turnover, MONEY_STEP, against)
    average = Decimal(0)
    if filled > 0:
        step = multiply(listing.rules.price_increment, _AVERAGE_DIGITS)
        average = quantize(divide(turnover, filled), step, against)
    return Taken(
        quantity=filled,
        turnover=rounded,
        fee=quantize(multiply(rounded, TAKER_FEE), MONEY_STEP, Rounding.UP),
        average_price=average,
        stop=stop,
    )
