"""What must be true after every run (safety.md §4); a finding names what is not."""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

from minara_core.actions import ActionState, PendingAction, TimeInForce
from minara_core.money import add, canonical, subtract
from minara_tools.app.execute_move import REQUEST_EXPIRED
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.approvals import NOTHING_SENT
from minara_tools.domain.ledger_check import check
from minara_tools.domain.operations import (
    ABSENT_POLLS,
    REQUEST_IS_OVER_BY,
    Operation,
    OperationState,
)
from minara_tools.domain.postings import Posting, PostingKind
from support.faults.evidence import Evidence, VenueOrder, unsettled

CLOCKS_DIFFER = timedelta(seconds=2.5)
"""How far one clock of a run may be from the others, and what it takes to look."""

_ZERO = Decimal(0)
_MOVED = frozenset({PostingKind.FILL, PostingKind.TRANSFER_OUT})
_DECIDED = frozenset(
    {ActionState.DONE, ActionState.FAILED, ActionState.VOIDED, ActionState.EXPIRED}
)


def findings(seen: Evidence) -> tuple[str, ...]:
    """Every broken promise of the run, none when all were kept."""
    return (
        *seen.notes,
        *(f"stuck: {left}" for left in unsettled(seen.recorded, seen.orders)),
        *_order_counts(seen),
        *(found for action in seen.actions for found in _of_action(seen, action)),
        *(found for action in seen.actions for found in _of_answers(seen, action)),
        *_of_books(seen),
        *_of_audit(seen),
    )


def _order_counts(seen: Evidence) -> Iterable[str]:
    known = {client_order_id(action.pending_action_id): action for action in seen.actions}
    ids = [order.client_order_id for order in seen.orders]
    for one in sorted(set(ids)):
        if ids.count(one) > 1:
            yield f"the venue has {ids.count(one)} orders {one}"
        if one not in known:
            yield f"the venue has an order {one} that nobody confirmed"
    sent = [one.client_order_id for one in seen.sends]
    for one in sorted(set(sent)):
        if sent.count(one) > 1:
            yield f"{one} was sent {sent.count(one)} times"
        if one not in known:
            yield f"{one} was sent and nobody confirmed it"


def _of_action(seen: Evidence, action: PendingAction) -> Iterable[str]:
    name = action.pending_action_id
    client_id = client_order_id(name)
    senders = {one.sender for one in seen.sends if one.client_order_id == client_id}
    order = next((one for one in seen.orders if one.client_order_id == client_id), None)
    operation = seen.recorded.operation_of(name)
    state = seen.recorded.books.actions.get(name)
    if operation is None:
        if order is not None or senders:
            yield f"{name} went to the venue without an operation"
        if state not in {ActionState.PENDING, ActionState.VOIDED, ActionState.EXPIRED}:
            yield f"{name} is {state} without an operation"
        return
    if operation.client_order_id != client_id:
        yield f"{name} has the client id {operation.client_order_id}"
    if senders - {operation.sender}:
        yield f"{name} was sent by a process that had not placed its hold"
    if order is None:
        yield from _absent(seen, operation, was_sent=bool(senders))
    else:
        yield from _present(seen, operation, order)


def _absent(seen: Evidence, operation: Operation, *, was_sent: bool) -> Iterable[str]:
    name = operation.operation_id
    if operation.state is not OperationState.VOIDED:
        yield f"{name} is {operation.state.value} and the venue has no order of it"
        return
    if any(one.operation_id == name for one in _fills(seen)):
        yield f"{name} is void and has postings"
    if operation.sent_time is None:
        if was_sent:
            yield f"{name} was sent and is void as never sent"
        return
    yield from _unproven(seen, operation)


def _unproven(seen: Evidence, operation: Operation) -> Iterable[str]:
    """Whether it was void while the venue would still have taken its request."""
    name, first = operation.operation_id, seen.voids.get(operation.operation_id)
    sent = [one for one in seen.sends if one.client_order_id == operation.client_order_id]
    ends = [operation.not_after, *(one.not_after for one in sent)]
    end = max((one for one in ends if one is not None), default=None)
    if operation.reason not in {NOTHING_SENT, REQUEST_EXPIRED}:
        yield f"{name} was sent and is void because of {operation.reason}"
    if operation.reason == REQUEST_EXPIRED and sent:
        yield f"{name} is void as never sent in time and was sent"
    if operation.reason == NOTHING_SENT and operation.absent_polls < ABSENT_POLLS:
        yield f"{name} is void after {operation.absent_polls} looks"
    if end is None or first is None:
        yield f"{name} is void and nobody knows since when, or until when it was valid"
        return
    proven = end + REQUEST_IS_OVER_BY
    if operation.reason == NOTHING_SENT and first < proven - CLOCKS_DIFFER:
        early = (proven - first).total_seconds()
        yield f"{name} was void {early:.1f} s before its absence was proven"


def _present(seen: Evidence, operation: Operation, order: VenueOrder) -> Iterable[str]:
    name = operation.operation_id
    if operation.state is OperationState.VOIDED:
        yield f"{name} is void ({operation.reason}) and the venue has its order: {order.state}"
    expected = OperationState.OPEN if order.is_open else OperationState.CLOSED
    if operation.state is not expected:
        yield f"{name} is {operation.state.value} and its order is {order.state}"
    elif not order.is_open and operation.end.value != order.state:
        yield f"{name} ended as {operation.end.value} and its order is {order.state}"
    posted = _sum(one.quantity for one in _fills(seen) if one.operation_id == name)
    if not posted == operation.filled_quantity == order.filled_quantity:
        yield (
            f"{name}: {canonical(posted)} posted, {canonical(operation.filled_quantity)} in the "
            f"operation, {canonical(order.filled_quantity)} at the venue"
        )


def _fills(seen: Evidence) -> list[Posting]:
    return [one for one in seen.recorded.books.postings if one.kind in _MOVED]


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    total = _ZERO
    for amount in amounts:
        total = add(total, amount)
    return total


def _of_answers(seen: Evidence, action: PendingAction) -> Iterable[str]:
    """What the person was told stays true, whatever happened to the process that told it."""
    name = action.pending_action_id
    final = seen.recorded.books.actions.get(name)
    for told in seen.answers.get(name, ()):
        is_unknown = told.state in {ActionState.UNCERTAIN, ActionState.EXECUTING}
        if is_unknown:
            continue
        if told.state not in _DECIDED or told.state is not final:
            yield f"{name} was told as {told.state.value} and is {final.value if final else 'gone'}"
        operation = seen.recorded.operation_of(name)
        is_resting = action.order.time_in_force is TimeInForce.GTC
        filled = told.outcome.filled_quantity if told.outcome else _ZERO
        if operation is not None and not is_resting and filled != operation.filled_quantity:
            yield (
                f"{name} was told as filled {canonical(filled)} and has "
                f"{canonical(operation.filled_quantity)}"
            )


def _of_books(seen: Evidence) -> Iterable[str]:
    for fault in check(seen.recorded.books):
        yield f"ledger: {fault.invariant}: {fault.subject}: {fault.detail}"
    for halt in seen.recorded.halts:
        yield f"trading was stopped: {halt}"
    ours = seen.recorded.owned()
    for asset in sorted(set(ours) | set(seen.balances)):
        has, says = ours.get(asset, _ZERO), seen.balances.get(asset, _ZERO)
        if has != says:
            yield f"{asset}: the books are off the venue by {canonical(subtract(has, says))}"
    if any(one.kind is PostingKind.DIFFERENCE for one in seen.recorded.books.postings):
        yield "something went to suspense"


def _of_audit(seen: Evidence) -> Iterable[str]:
    for found in seen.audit.findings:
        if found.is_broken:
            yield f"audit: {found.sentence}"
    for action in seen.actions:
        name = action.pending_action_id
        state = seen.recorded.books.actions.get(name)
        if state is None or state is ActionState.PENDING:
            continue
        rows = {"audit row": seen.recorded.audits, "tier event": seen.recorded.events}
        for what, kept in rows.items():
            if (name, state.value) not in kept:
                yield f"{name} is {state.value} without an {what} that says so"
            if seen.recorded.operation_of(name) and (name, "executing") not in kept:
                yield f"{name} was decided without an {what} of the decision"
