"""Exits: orders that only reduce exposure. They are always open (safety.md §3)."""

from minara_core.actions import MarginMode, MoveKind, ResolvedOrder, Side
from minara_core.reasons import DenialReason
from minara_core.taxonomy import TradingState
from minara_tools.domain.assets import is_stablecoin
from minara_tools.domain.outcomes import ToolCallBlockedError

QUOTE_ASSET = "USDC"
"""What a sale ends in when nothing else is said; an exit also if the lexicon did not know it."""


def is_spot(order: ResolvedOrder) -> bool:
    """Whether it is paid in full: no margin, no leverage."""
    return order.margin_mode is MarginMode.NONE and order.leverage == 1


def is_exit(order: ResolvedOrder) -> bool:
    """Whether an order can only reduce exposure.

    A reduce-only order on margin; a spot trade from something else into a verified stablecoin or
    the quote asset USDC; the cancel of an order to buy. Reduce-only says nothing of a spot
    purchase, which has no position to reduce.
    """
    match order.kind:
        case MoveKind.TRADE if is_spot(order):
            return _ends_in_money(order)
        case MoveKind.TRADE:
            return order.reduce_only
        case MoveKind.CANCEL:
            return order.side is Side.BUY
        case MoveKind.TRANSFER | MoveKind.WITHDRAWAL:
            return False


def forbids(state: TradingState, order: ResolvedOrder, *, by_person: bool = True) -> bool:
    """Whether the trading state keeps this order from being sent.

    REDUCING lets exits through, HALTED only cancels and the exits of a person. A person's cancel is
    never kept back: what a resting sale holds could not be sold otherwise.
    """
    if state is TradingState.ACTIVE or (by_person and order.kind is MoveKind.CANCEL):
        return False
    if state is TradingState.REDUCING or by_person:
        return not is_exit(order)
    return not (order.kind is MoveKind.CANCEL and is_exit(order))


def _ends_in_money(order: ResolvedOrder) -> bool:
    gives, takes = order.instrument.base, order.instrument.quote
    if order.side is Side.BUY:
        return is_stablecoin(gives) and not _is_money(takes)
    return _is_money(takes)


def _is_money(asset: str) -> bool:
    return asset == QUOTE_ASSET or is_stablecoin(asset)


def refuse_when_stopped(state: TradingState, order: ResolvedOrder) -> None:
    """Raises ToolCallBlockedError (TRADING_HALTED, TRADING_REDUCING) for what the state forbids."""
    if not forbids(state, order):
        return
    raise ToolCallBlockedError(
        DenialReason.TRADING_HALTED
        if state is TradingState.HALTED
        else DenialReason.TRADING_REDUCING,
        gate="trading_state",
        message=f"trading is {state.value}: only what reduces exposure may be sent",
    )
