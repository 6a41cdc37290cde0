"""Equity, and the worse case of moves of which nobody knows whether they happened.

Such a move counts as done and as not done, whichever is worse for what is asked: for equity the
poorer case, for a position the larger one (safety.md §3 and §4).
"""

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from types import MappingProxyType

from minara_core.money import add, divide, multiply, subtract
from minara_tools.domain.assets import usd_price
from minara_tools.domain.funds import FundContext, UncertainMove
from minara_tools.domain.venue_terms import Balance

UNPRICED_SHARE = Decimal("0.05")
"""More of the account than this without a price makes its equity unknown."""

_ZERO = Decimal(0)
_NONE: Mapping[str, Decimal] = MappingProxyType({})


def equity(
    balances: Iterable[Balance],
    prices: Mapping[str, Decimal],
    uncertain: Iterable[UncertainMove] = (),
    *,
    verified: Collection[str],
    last_prices: Mapping[str, Decimal] = _NONE,
) -> Decimal | None:
    """What an account is worth in USD, or None when more than 5 % of it cannot be priced.

    `prices` are the bids in USD, as the market says them: a stablecoin within 0.5 % of its peg
    counts 1 here. `verified` are the assets that the venue itself lists; all others count zero, as
    does what has no price. `last_prices` tells how much of the account an asset without a price
    is; an asset that has neither is taken to be more than 5 %.
    """
    owned = {one.asset: add(one.available, one.held) for one in balances}
    known = {asset: quantity for asset, quantity in owned.items() if asset in verified}
    total = value_of(known, prices)
    for move in uncertain:
        total = add(total, min(_ZERO, change_by(move, prices, verified)))
    return None if _is_mostly_unpriced(known, prices, last_prices) else total


def value_of(quantities: Mapping[str, Decimal], prices: Mapping[str, Decimal]) -> Decimal:
    """The sum in USD; what has no price counts zero."""
    total = _ZERO
    for asset, quantity in quantities.items():
        if asset in prices:
            total = add(total, multiply(quantity, usd_price(asset, prices[asset])))
    return total


def change_by(
    move: UncertainMove, prices: Mapping[str, Decimal], verified: Collection[str]
) -> Decimal:
    """What the account would be worth more (or less) had the move happened."""
    brings = {asset: amount for asset, amount in move.brings.items() if asset in verified}
    takes = {asset: amount for asset, amount in move.takes.items() if asset in verified}
    return subtract(value_of(brings, prices), value_of(takes, prices))


def worst_case(funds: FundContext, asset: str) -> Decimal:
    """The most of `asset` that the account may hold once all is known: uncertain purchases as done,
    uncertain sales as not done. What open orders may still buy comes on top (`buying_usd`)."""
    known = funds.assets.get(asset)
    total = _ZERO if known is None else add(known.free, known.held)
    for move in funds.uncertain:
        total = add(total, move.brings.get(asset, _ZERO))
    return total


def _is_mostly_unpriced(
    quantities: Mapping[str, Decimal],
    prices: Mapping[str, Decimal],
    last_prices: Mapping[str, Decimal],
) -> bool:
    unpriced = {a: q for a, q in quantities.items() if a not in prices and q > 0}
    if not unpriced:
        return False
    if any(asset not in last_prices for asset in unpriced):
        return True
    guessed = value_of(unpriced, last_prices)
    whole = add(guessed, value_of(quantities, prices))
    return whole <= 0 or divide(guessed, whole) > UNPRICED_SHARE
