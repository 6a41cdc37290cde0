"""The pending action's state machine: what a decision does to it, and what its fill means.

Every function takes the action as it is under its row lock and returns what it becomes, or raises;
the store only writes what they return.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from minara_core.actions import (
    ActionOutcome,
    ActionState,
    PendingAction,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
    TradingMode,
)
from minara_core.errors import Conflict
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import TradingState
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.outcomes import ToolCallBlockedError

LIFETIME = timedelta(minutes=10)
DUPLICATE_WINDOW = timedelta(minutes=5)
MAX_UNSOLICITED = 3
UNFILLED = "UNFILLED"
NOTHING_SENT = "NOTHING_SENT"

CONFIRMED_STATES = frozenset(
    {
        ActionState.CONFIRMED,
        ActionState.EXECUTING,
        ActionState.DONE,
        ActionState.FAILED,
        ActionState.VOIDED,
        ActionState.UNCERTAIN,
    }
)
"""What only a person's yes leads to."""

TELLABLE_STATES = frozenset(
    {
        ActionState.DONE,
        ActionState.FAILED,
        ActionState.VOIDED,
        ActionState.UNCERTAIN,
        ActionState.REJECTED,
        ActionState.EXPIRED,
    }
)
"""What a person is to be told. A superseded action is told by the one that took its place."""

TRANSITIONS: Mapping[ActionState, frozenset[ActionState]] = MappingProxyType(
    {
        ActionState.PENDING: frozenset(
            {
                ActionState.CONFIRMED,
                ActionState.EXECUTING,
                ActionState.VOIDED,
                ActionState.REJECTED,
                ActionState.EXPIRED,
                ActionState.SUPERSEDED,
            }
        ),
        ActionState.CONFIRMED: frozenset({ActionState.EXECUTING, ActionState.VOIDED}),
        ActionState.EXECUTING: frozenset(
            {ActionState.DONE, ActionState.FAILED, ActionState.VOIDED, ActionState.UNCERTAIN}
        ),
        ActionState.UNCERTAIN: frozenset(
            {ActionState.UNCERTAIN, ActionState.DONE, ActionState.FAILED, ActionState.VOIDED}
        ),
    }
)
"""From each state that is not final. PENDING goes through CONFIRMED and on in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What would execute now; an action of another mode, venue, account or instrument is void.
    `can_execute` is false when the tool that made the action is gone."""

    mode: TradingMode
    venue: str
    account: str
    symbols: frozenset[str]
    can_execute: bool


def moved(action: PendingAction, outcome: ActionOutcome) -> PendingAction:
    """The action in its outcome's state. Raises ValueError for a step the machine has not."""
    if outcome.state not in TRANSITIONS.get(action.state, frozenset()):
        raise ValueError(f"no action goes from {action.state} to {outcome.state}")
    return replace(action, state=outcome.state, outcome=outcome)


def has_expired(action: PendingAction, now: datetime) -> bool:
    return action.state is ActionState.PENDING and now >= action.expire_time


def expired(action: PendingAction, now: datetime) -> PendingAction:
    return moved(action, _unsent(ActionState.EXPIRED, "nobody decided in time", "", now))


def superseded(action: PendingAction, now: datetime) -> PendingAction:
    return moved(action, _unsent(ActionState.SUPERSEDED, "a newer preview took its place", "", now))


def rejected(action: PendingAction, now: datetime, *, reason: str = "") -> PendingAction:
    """Rejected for good, by the person or, with a reason, by a halt."""
    message = "trading was halted" if reason else "rejected"
    return moved(action, _unsent(ActionState.REJECTED, message, reason, now))


def executing(
    action: PendingAction,
    *,
    now: datetime,
    trading_state: TradingState,
    running: Configuration,
) -> PendingAction:
    """What a valid yes makes of a pending action: EXECUTING, or VOIDED by a gate."""
    denial = _void_reason(action, trading_state, running)
    if denial is not None:
        reason, message = denial
        return moved(action, _unsent(ActionState.VOIDED, message, reason, now))
    return moved(
        action,
        ActionOutcome(
            state=ActionState.EXECUTING,
            message="sent to the venue",
            client_order_id=client_order_id(action.pending_action_id),
            decide_time=now,
        ),
    )


def refuse_unless_open(action: PendingAction, *, action_hash: str, confirms: bool) -> None:
    """Raises Conflict (CONFIRMATION_MISMATCH, _USED, _EXPIRED) unless this decision may be taken
    or was the one that was taken."""
    if action.action_hash != action_hash:
        raise _conflict(action, ErrorReason.CONFIRMATION_MISMATCH, "another preview was shown")
    if action.state is ActionState.EXPIRED:
        raise too_late(action)
    same = CONFIRMED_STATES if confirms else {ActionState.REJECTED}
    if action.state is not ActionState.PENDING and action.state not in same:
        raise _conflict(
            action, ErrorReason.CONFIRMATION_USED, f"this action is {action.state.value} already"
        )


def too_late(action: PendingAction) -> Conflict:
    """The refusal of a decision on an expired action."""
    return _conflict(
        action, ErrorReason.CONFIRMATION_EXPIRED, "this preview has expired; ask for a new one"
    )


def settled(action: PendingAction, placed: PlacedOrder, now: datetime) -> PendingAction:
    """What the venue's order means for the action; an order still open leaves it uncertain."""
    state, message, reason = _meaning(placed)
    decided = action.outcome.decide_time if action.outcome else None
    return moved(
        action,
        ActionOutcome(
            state=state,
            message=message,
            reason=reason,
            filled_quantity=placed.filled_quantity,
            filled_asset=action.order.instrument.base,
            average_price=placed.average_price,
            spent=placed.spent,
            spent_asset=placed.spent_asset,
            received=placed.received,
            received_asset=placed.received_asset,
            fee=placed.fee,
            fee_asset=placed.fee_asset,
            client_order_id=placed.client_order_id,
            venue_order_id=placed.venue_order_id,
            decide_time=decided,
            finish_time=None if state is ActionState.UNCERTAIN else now,
        ),
    )


def unfilled(
    action: PendingAction, state: ActionState, *, reason: str, message: str, now: datetime
) -> PendingAction:
    """The end of an executing action without a fill: FAILED, VOIDED, or not known yet."""
    known = action.outcome
    return moved(
        action,
        ActionOutcome(
            state=state,
            message=message,
            reason=reason,
            client_order_id=known.client_order_id if known else "",
            decide_time=known.decide_time if known else None,
            finish_time=None if state is ActionState.UNCERTAIN else now,
        ),
    )


def is_exit(order: ResolvedOrder) -> bool:
    """Whether an order can only reduce exposure: reduce-only, or a spot sale for the quote."""
    return order.reduce_only or (order.side is Side.SELL and order.leverage == 1)


def forbids(state: TradingState, order: ResolvedOrder) -> bool:
    """Whether the trading state keeps this order from being sent."""
    if state is TradingState.ACTIVE:
        return False
    return state is TradingState.HALTED or not is_exit(order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parking:
    """A new pending action as it is stored, and the older ones that end with it."""

    action: PendingAction
    superseded: tuple[PendingAction, ...]


def parked(
    action: PendingAction,
    neighbours: Sequence[PendingAction],
    *,
    by_later_message: bool,
    now: datetime,
) -> Parking:
    """What storing a new action does. `neighbours` are the user's open, unsettled and lately
    confirmed ones. Raises ToolCallBlockedError (RATE_LIMITED) when too many that nobody asked for
    are open in the session."""
    replaced = tuple(
        superseded(other, now)
        for other in neighbours
        if takes_place_of(action, other, by_later_message=by_later_message)
    )
    ended = {other.pending_action_id for other in replaced}
    unsolicited = [
        other
        for other in neighbours
        if other.state is ActionState.PENDING
        and other.session_id == action.session_id
        and not other.solicited
        and other.pending_action_id not in ended
    ]
    if not action.solicited and len(unsolicited) >= MAX_UNSOLICITED:
        raise ToolCallBlockedError(
            DenialReason.RATE_LIMITED,
            gate="pending_actions",
            message="too many moves that nobody asked for wait in this session already",
            metadata={"limit": str(MAX_UNSOLICITED)},
        )
    marked = replace(action, possible_duplicate=repeats(action, neighbours, now))
    return Parking(action=marked, superseded=replaced)


def takes_place_of(new: PendingAction, old: PendingAction, *, by_later_message: bool) -> bool:
    """Whether a new preview supersedes an open one: the same move, and a later human message."""
    return (
        by_later_message
        and old.state is ActionState.PENDING
        and new.turn_id != old.turn_id
        and (new.session_id, new.tool_name) == (old.session_id, old.tool_name)
        and _target(new.order) == _target(old.order)
    )


def repeats(new: PendingAction, others: Iterable[PendingAction], now: datetime) -> bool:
    """Whether the same order was confirmed in the last five minutes, or one on the same instrument
    and side is still uncertain."""
    for other in others:
        if _target(other.order) != _target(new.order):
            continue
        if other.state in {ActionState.UNCERTAIN, ActionState.EXECUTING}:
            return True
        decided = other.outcome.decide_time if other.outcome else None
        is_recent = decided is not None and now - decided <= DUPLICATE_WINDOW
        if other.state is ActionState.DONE and is_recent and _same_size(new.order, other.order):
            return True
    return False


def _target(order: ResolvedOrder) -> tuple[str, ...]:
    return (
        order.mode,
        order.venue,
        order.account,
        order.instrument.symbol,
        order.side,
        order.recipient,
    )


def _same_size(one: ResolvedOrder, other: ResolvedOrder) -> bool:
    if one.quantity == other.quantity:
        return True
    return one.side is Side.BUY and one.max_spend == other.max_spend


def _void_reason(
    action: PendingAction, trading_state: TradingState, running: Configuration
) -> tuple[str, str] | None:
    order = action.order
    if forbids(trading_state, order):
        reason = (
            DenialReason.TRADING_HALTED
            if trading_state is TradingState.HALTED
            else DenialReason.TRADING_REDUCING
        )
        return reason, f"trading is {trading_state.value}; nothing was sent"
    configured = (running.mode, running.venue, running.account)
    is_listed = order.instrument.symbol in running.symbols
    if (order.mode, order.venue, order.account) != configured or not (
        is_listed and running.can_execute
    ):
        return (
            DenialReason.CONFIRMATION_MISMATCH,
            "mode, venue, account, instrument or tool are not those of the preview any more; "
            "nothing was sent",
        )
    return None


def _meaning(placed: PlacedOrder) -> tuple[ActionState, str, str]:
    match placed.state:
        case PlacedState.FILLED:
            return ActionState.DONE, "filled", ""
        case PlacedState.CANCELLED if placed.filled_quantity > 0:
            return ActionState.DONE, "partly filled; the rest was cancelled", placed.reason
        case PlacedState.CANCELLED:
            reason = placed.reason or UNFILLED
            return ActionState.FAILED, "nothing was filled within the price bound", reason
        case PlacedState.REJECTED:
            return ActionState.FAILED, "the venue rejected the order", placed.reason or "REJECTED"
        case PlacedState.OPEN:
            return ActionState.UNCERTAIN, "the order is still open at the venue", ""


def _unsent(state: ActionState, message: str, reason: str, now: datetime) -> ActionOutcome:
    return ActionOutcome(
        state=state, message=message, reason=reason, decide_time=now, finish_time=now
    )


def _conflict(action: PendingAction, reason: ErrorReason, message: str) -> Conflict:
    return Conflict(
        message,
        reason=reason,
        metadata={"pending_action_id": action.pending_action_id, "state": action.state.value},
    )
