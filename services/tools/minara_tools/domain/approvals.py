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
    MoveKind,
    PendingAction,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.errors import Conflict
from minara_core.ids import SessionId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import TradingState
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.exits import refuse_when_stopped
from minara_tools.domain.operations import BY_PERSON
from minara_tools.domain.outcomes import ToolCallBlockedError

LIFETIME = timedelta(minutes=10)
DUPLICATE_WINDOW = timedelta(minutes=5)
MAX_UNSOLICITED = 3
UNFILLED = "UNFILLED"
NOTHING_SENT = "NOTHING_SENT"
NO_SUCH_ORDER = "ORDER_NOT_FOUND"

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
        ActionState.DONE: frozenset({ActionState.DONE, ActionState.FAILED, ActionState.UNCERTAIN}),
    }
)
"""PENDING goes through CONFIRMED and on in one transaction. DONE moves on when a resting order
fills, ends, is rejected after all, or is lost by the venue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What would execute now; an action of another mode, venue, account or instrument is void.
    `can_execute` is false when the tool that made the action is gone."""

    mode: TradingMode
    venue: str
    accounts: frozenset[str]
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


def executing(action: PendingAction, now: datetime) -> PendingAction:
    """What a valid yes makes of a pending action that no gate refuses."""
    return moved(
        action,
        ActionOutcome(
            state=ActionState.EXECUTING,
            message="sent to the venue",
            client_order_id=client_order_id(action.pending_action_id),
            decide_time=now,
        ),
    )


def voided(
    action: PendingAction, *, reason: str, message: str, now: datetime, replaced_by: str = ""
) -> PendingAction:
    """A gate refused at execution, or the venue provably took nothing."""
    if action.state is ActionState.PENDING:
        outcome = _unsent(ActionState.VOIDED, f"{message}; nothing was sent", reason, now)
        return moved(action, replace(outcome, replaced_by=replaced_by))
    return unfilled(action, ActionState.VOIDED, reason=reason, message=message, now=now)


def resolved(
    action: PendingAction, was_executed: bool, evidence: str, now: datetime
) -> PendingAction:
    """A person has settled an uncertain action with evidence."""
    state = ActionState.DONE if was_executed else ActionState.VOIDED
    said = "executed" if was_executed else "not executed"
    return unfilled(
        action,
        state,
        reason=BY_PERSON,
        message=f"settled by a person: {said} ({evidence[:200]})",
        now=now,
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
    state, message, reason = _meaning(action.order, placed)
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
            client_order_id=action.outcome.client_order_id if action.outcome else "",
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
        and is_same_move(new.session_id, new.tool_name, new.order, old)
    )


def is_same_move(
    session_id: SessionId, tool_name: str, order: ResolvedOrder, old: PendingAction
) -> bool:
    """Whether an open preview of the same session is one of this very move, whatever its size."""
    is_of_session = (session_id, tool_name) == (old.session_id, old.tool_name)
    return is_of_session and _target(order) == _target(old.order)


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
        order.kind,
        order.cancels,
    )


def _same_size(one: ResolvedOrder, other: ResolvedOrder) -> bool:
    rests = TimeInForce.GTC in {one.time_in_force, other.time_in_force}
    if rests and one.limit_price != other.limit_price:
        return False
    if one.quantity == other.quantity:
        return True
    return one.side is Side.BUY and one.max_spend == other.max_spend


def check_still_possible(
    action: PendingAction, trading_state: TradingState, running: Configuration
) -> None:
    """Raises ToolCallBlockedError when the trading state forbids the stored order, or when mode,
    venue, account or instrument are not those of the preview any more."""
    order = action.order
    refuse_when_stopped(trading_state, order)
    configured = (running.mode, running.venue)
    is_listed = order.kind is not MoveKind.TRADE or order.instrument.symbol in running.symbols
    is_own = order.account in running.accounts
    if (order.mode, order.venue) != configured or not (
        is_own and is_listed and running.can_execute
    ):
        raise ToolCallBlockedError(
            DenialReason.CONFIRMATION_MISMATCH,
            gate="configuration",
            message="mode, venue, account, instrument or tool are not those of the preview",
        )


def _meaning(order: ResolvedOrder, placed: PlacedOrder) -> tuple[ActionState, str, str]:
    if order.kind is MoveKind.CANCEL:
        return _meaning_of_cancel(placed)
    if order.kind is not MoveKind.TRADE and placed.state is PlacedState.FILLED:
        return ActionState.DONE, "sent", ""
    match placed.state:
        case PlacedState.FILLED:
            return ActionState.DONE, "filled", ""
        case PlacedState.CANCELLED | PlacedState.EXPIRED if placed.filled_quantity > 0:
            return ActionState.DONE, "partly filled; the rest was cancelled", placed.reason
        case PlacedState.CANCELLED | PlacedState.EXPIRED if order.time_in_force is TimeInForce.GTC:
            return ActionState.DONE, "the order was cancelled; nothing was filled", placed.reason
        case PlacedState.CANCELLED | PlacedState.EXPIRED:
            reason = placed.reason or UNFILLED
            return ActionState.FAILED, "nothing was filled within the price bound", reason
        case PlacedState.REJECTED:
            return ActionState.FAILED, "the venue rejected the order", placed.reason or "REJECTED"
        case PlacedState.OPEN if order.time_in_force is TimeInForce.GTC:
            part = " and is partly filled" if placed.filled_quantity > 0 else ""
            return ActionState.DONE, f"the order rests at the venue{part}", ""
        case PlacedState.OPEN:
            return ActionState.UNCERTAIN, "the order is still open at the venue", ""


def _meaning_of_cancel(target: PlacedOrder) -> tuple[ActionState, str, str]:
    match target.state:
        case PlacedState.OPEN:
            return ActionState.UNCERTAIN, "the order is still open at the venue", ""
        case PlacedState.CANCELLED:
            return ActionState.DONE, "the order was cancelled", ""
        case PlacedState.REJECTED if target.reason == NO_SUCH_ORDER:
            return ActionState.FAILED, "the venue knows no such order", NO_SUCH_ORDER
        case _:
            return ActionState.DONE, f"the order was over already: {target.state.value}", ""


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
