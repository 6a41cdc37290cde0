"""The operation: one confirmed move on its way to the venue, and what is known of it.

intent → held → sent → open → closed; voided from intent or held, from sent when the request lapsed
before it was handed to the venue, or by proof of absence; uncertain from sent or open. Pure
functions: each takes the operation as it is under its lock and returns what it becomes. From `sent`
on a hold ends by fact alone (safety.md §4).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType

from minara_core.actions import (
    MoveKind,
    PendingAction,
    PlacedOrder,
    PlacedState,
    ResolvedOrder,
    Side,
)
from minara_core.ids import UserId
from minara_core.money import add, divide, multiply

REQUEST_IS_OVER_BY = timedelta(seconds=30)
"""How long after its validity a request counts as dead, for clocks that differ."""
ABSENT_POLLS = 3
POLL_AT_LEAST_EVERY = timedelta(seconds=2)
LOOK_BACK = timedelta(seconds=60)
"""How far before an operation was sent its facts are looked for."""
NEEDS_PERSON_AFTER = timedelta(hours=24)
BY_PERSON = "RESOLVED_BY_PERSON"


class OperationState(StrEnum):
    INTENT = "intent"
    HELD = "held"
    SENT = "sent"
    OPEN = "open"
    UNCERTAIN = "uncertain"
    CLOSED = "closed"
    VOIDED = "voided"

    @property
    def is_final(self) -> bool:
        return self in {OperationState.CLOSED, OperationState.VOIDED}

    @property
    def is_in_flight(self) -> bool:
        """Whether the venue may not have said its last word on it being taken."""
        return self in {
            OperationState.INTENT,
            OperationState.HELD,
            OperationState.SENT,
            OperationState.UNCERTAIN,
        }


class OperationEnd(StrEnum):
    """How an order ended at the venue; NONE while it has not."""

    NONE = ""
    FILLED = "filled"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"


TRANSITIONS: Mapping[OperationState, frozenset[OperationState]] = MappingProxyType(
    {
        OperationState.INTENT: frozenset({OperationState.HELD, OperationState.VOIDED}),
        OperationState.HELD: frozenset({OperationState.SENT, OperationState.VOIDED}),
        OperationState.SENT: frozenset(
            {
                OperationState.OPEN,
                OperationState.CLOSED,
                OperationState.UNCERTAIN,
                OperationState.VOIDED,
            }
        ),
        OperationState.OPEN: frozenset({OperationState.CLOSED, OperationState.UNCERTAIN}),
        OperationState.UNCERTAIN: frozenset(
            {OperationState.OPEN, OperationState.CLOSED, OperationState.VOIDED}
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`operation_id` is the id of the confirmed action. `hold_left` of `hold_asset` is what the
    books still hold for it. `sender` is the process that placed the hold, `epoch` its fence.
    `not_after` is when the venue takes the request no more; None while nothing is signed, and for
    a venue without validity. `absent_polls` counts looks that found nothing after that."""

    operation_id: str
    user_id: UserId
    client_order_id: str
    order: ResolvedOrder
    state: OperationState
    is_exit: bool
    notional_usd: Decimal
    hold_asset: str
    hold_amount: Decimal
    hold_left: Decimal
    sender: str
    epoch: int
    create_time: datetime
    update_time: datetime
    sign_time: datetime | None = None
    not_after: datetime | None = None
    sent_time: datetime | None = None
    end: OperationEnd = OperationEnd.NONE
    reason: str = ""
    filled_quantity: Decimal = Decimal(0)
    venue_order_id: str = ""
    absent_polls: int = 0
    last_poll_time: datetime | None = None

    @property
    def has_left(self) -> bool:
        """Whether something was sent to an address outside, for good."""
        is_done = self.state is OperationState.CLOSED and self.end is OperationEnd.FILLED
        return self.order.kind is MoveKind.WITHDRAWAL and is_done

    @property
    def moved_usd(self) -> Decimal:
        """What counts against a day's cap: all of it while it may still happen, else what did."""
        if self.state is OperationState.VOIDED:
            return Decimal(0)
        if self.state is not OperationState.CLOSED or self.end is OperationEnd.FILLED:
            return self.notional_usd
        if self.order.quantity <= 0:
            return Decimal(0)
        return divide(multiply(self.notional_usd, self.filled_quantity), self.order.quantity)


def begun(
    action: PendingAction, *, client_order_id: str, is_exit: bool, sender: str, now: datetime
) -> Operation:
    """The operation of an action that a person has just confirmed, in `intent`."""
    asset, amount = hold_of(action.order)
    return Operation(
        operation_id=action.pending_action_id,
        user_id=action.user_id,
        client_order_id=client_order_id,
        order=action.order,
        state=OperationState.INTENT,
        is_exit=is_exit,
        notional_usd=action.preview.notional_usd,
        hold_asset=asset,
        hold_amount=amount,
        hold_left=Decimal(0),
        sender=sender,
        epoch=1,
        create_time=now,
        update_time=now,
    )


def hold_of(order: ResolvedOrder) -> tuple[str, Decimal]:
    """The asset and the most that a move may take, the worst-case fee included; nothing for a
    cancel. What leaves the venue has its fee in `max_spend` already."""
    if order.kind is MoveKind.CANCEL:
        return "", Decimal(0)
    spends = order.max_spend
    is_fee_extra = order.kind is MoveKind.TRADE and order.side is Side.SELL
    if is_fee_extra and order.max_fee_asset == order.max_spend_asset:
        spends = add(spends, order.max_fee)
    return order.max_spend_asset, spends


def moved(operation: Operation, state: OperationState, now: datetime) -> Operation:
    """The operation in its next state. Raises ValueError for a step the machine has not."""
    if state not in TRANSITIONS.get(operation.state, frozenset()):
        raise ValueError(f"no operation goes from {operation.state} to {state}")
    return replace(operation, state=state, update_time=now)


def held(operation: Operation, now: datetime) -> Operation:
    return replace(moved(operation, OperationState.HELD, now), hold_left=operation.hold_amount)


def sent(
    operation: Operation, *, sign_time: datetime, not_after: datetime | None, now: datetime
) -> Operation:
    """The last step before the first byte leaves."""
    return replace(
        moved(operation, OperationState.SENT, now),
        sign_time=sign_time,
        not_after=not_after,
        sent_time=now,
    )


def voided(operation: Operation, reason: str, now: datetime) -> Operation:
    """Nothing was sent, or the venue provably took nothing. What is still held is released."""
    return replace(moved(operation, OperationState.VOIDED, now), reason=reason)


def uncertain(operation: Operation, reason: str, now: datetime) -> Operation:
    if operation.state is OperationState.UNCERTAIN:
        return operation
    return replace(moved(operation, OperationState.UNCERTAIN, now), reason=reason)


def seen(operation: Operation, order: PlacedOrder, now: datetime) -> Operation:
    """What the venue's order makes of the operation. It closes only when the facts booked are all
    that the venue says was filled; until then it stays open and its facts are asked for again."""
    known = replace(operation, venue_order_id=order.venue_order_id, absent_polls=0, update_time=now)
    is_whole = order.filled_quantity == operation.filled_quantity
    if order.state is PlacedState.OPEN or not is_whole:
        if operation.state is OperationState.OPEN:
            return known
        return moved(known, OperationState.OPEN, now)
    return replace(
        moved(known, OperationState.CLOSED, now),
        end=_END[order.state],
        reason=order.reason,
    )


def cancel_seen(operation: Operation, target: PlacedOrder, now: datetime) -> Operation:
    """A cancel is done when its order is over, however it ended."""
    return replace(
        moved(operation, OperationState.CLOSED, now),
        end=OperationEnd.CANCELLED
        if target.state is PlacedState.CANCELLED
        else _END.get(target.state, OperationEnd.FILLED),
        venue_order_id=target.venue_order_id,
    )


def is_request_over(operation: Operation, now: datetime) -> bool:
    """Whether the venue can no longer take this operation's request."""
    return operation.not_after is not None and now >= operation.not_after + REQUEST_IS_OVER_BY


def absent(operation: Operation, now: datetime) -> Operation:
    """One more look that found nothing at the venue: not by id, not among open or closed orders,
    not among facts. Only looks after the request is over count, not two in one moment, and none for
    what the venue has had."""
    if operation.venue_order_id or operation.filled_quantity:
        return operation  # it was seen once: that it is gone does not tell how it ended
    last = operation.last_poll_time
    is_early = last is not None and now - last < POLL_AT_LEAST_EVERY
    if not is_request_over(operation, now) or is_early:
        return operation
    return replace(
        operation, absent_polls=operation.absent_polls + 1, last_poll_time=now, update_time=now
    )


def is_proven_absent(operation: Operation) -> bool:
    return operation.absent_polls >= ABSENT_POLLS


def needs_person(operation: Operation, now: datetime) -> bool:
    """Whether it has been uncertain for so long that a person may settle it with evidence."""
    since = operation.sent_time or operation.create_time
    return operation.state is OperationState.UNCERTAIN and now - since >= NEEDS_PERSON_AFTER


def resolved(operation: Operation, *, was_executed: bool, now: datetime) -> Operation:
    """What a person's evidence makes of an uncertain operation."""
    if not was_executed:
        return voided(operation, BY_PERSON, now)
    closed = moved(operation, OperationState.CLOSED, now)
    return replace(closed, end=OperationEnd.FILLED, reason=BY_PERSON)


_END: Mapping[PlacedState, OperationEnd] = MappingProxyType(
    {
        PlacedState.FILLED: OperationEnd.FILLED,
        PlacedState.CANCELLED: OperationEnd.CANCELLED,
        PlacedState.EXPIRED: OperationEnd.EXPIRED,
        PlacedState.REJECTED: OperationEnd.REJECTED,
    }
)
