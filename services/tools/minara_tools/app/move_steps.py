"""What each step of a move writes, judged under the lock: hold, send, settle, void.

Pure functions that make `MoneyStep`s; execute_move and recover_operations put them in order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from minara_core.actions import ActionState, MoveKind, PendingAction, PlacedOrder, PlacedState
from minara_core.audit import AuditKind, AuditRecord
from minara_core.errors import Conflict, NotReady
from minara_core.ids import UserId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import PermissionTier, TradingState
from minara_core.tooling import dump_json
from minara_tools.app.fund_ledger import LockedMove, MoneyChange, MoneyStep
from minara_tools.app.gather_funds import VenueSnapshot, context_of
from minara_tools.app.observing import Tracing
from minara_tools.app.records import action_event, action_record
from minara_tools.domain import approvals, exits, operations, postings
from minara_tools.domain.approvals import Configuration
from minara_tools.domain.funds import StageInput
from minara_tools.domain.ledger_alarms import Alarm
from minara_tools.domain.operations import Operation, OperationState
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.postings import Posting
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.stages import EXECUTING, pass_stages
from minara_tools.domain.venue_terms import VenueQuote, VenueRequest

CLOCK_LEEWAY = timedelta(seconds=2)
UNKNOWN_OUTCOME = "OUTCOME_UNKNOWN"
NEEDS_PERSON = "NEEDS_PERSON"

Write = Callable[[LockedMove, PendingAction, AuditKind], MoneyChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFacts:
    """What a decision is judged by besides the books. `fresh` is None unless a market order is
    decided."""

    running: Configuration
    snapshot: VenueSnapshot
    fresh: VenueQuote | None


@dataclass(frozen=True, slots=True)
class MoveSteps:
    """Makes the steps. `sender` names this process."""

    registry: ToolRegistry
    tracing: Tracing
    sender: str

    def hold(self, action_hash: str, given: ExecutionFacts) -> MoneyStep:
        """A person's yes: all gates again behind the lock, then the hold; or the action is void.

        Raises Conflict as `approvals.refuse_unless_open`. A decided action stays as it is.
        """

        def step(move: LockedMove) -> MoneyChange:
            action, now = move.action, move.standing.time
            approvals.refuse_unless_open(action, action_hash=action_hash, confirms=True)
            if action.state is not ActionState.PENDING:
                return MoneyChange()
            if approvals.has_expired(action, now):
                return self._written(move, approvals.expired(action, now), AuditKind.STATE_CHANGE)
            try:
                self._pass_gates(move, given)
            except ToolCallBlockedError as blocked:
                void = approvals.voided(
                    action, reason=blocked.reason, message=blocked.message, now=now
                )
                return self._written(move, void, AuditKind.DECISION)
            decided = approvals.executing(action, now)
            assert decided.outcome is not None
            begun = operations.begun(
                action,
                client_order_id=decided.outcome.client_order_id,
                is_exit=exits.is_exit(action.order),
                sender=self.sender,
                now=now,
            )
            held = operations.held(begun, now)
            hold = (postings.hold(held, now),) if held.hold_asset else ()
            return self._written(move, decided, AuditKind.DECISION, held, hold)

        return step

    def send(self, request: VenueRequest) -> MoneyStep:
        """The last look before the first byte leaves: still held, still ours, trading still on."""

        def step(move: LockedMove) -> MoneyChange:
            operation, now = move.operation, move.standing.time
            is_ours = (
                operation is not None
                and operation.state is OperationState.HELD
                and operation.sender == self.sender
            )
            if operation is None or not is_ours:
                return MoneyChange()
            if exits.forbids(move.standing.trading.state, move.action.order):
                is_halted = move.standing.trading.state is TradingState.HALTED
                halted, reducing = DenialReason.TRADING_HALTED, DenialReason.TRADING_REDUCING
                reason = halted if is_halted else reducing
                return self._void(move, operation, reason, "trading stopped: nothing was sent")
            sent = operations.sent(
                operation, sign_time=request.sign_time, not_after=request.not_after, now=now
            )
            return MoneyChange(operation=sent)

        return step

    def settle(self, order: PlacedOrder) -> MoneyStep:
        """What the venue says of the order, after its facts were booked."""

        def step(move: LockedMove) -> MoneyChange:
            operation, now = move.operation, move.standing.time
            if operation is None or operation.state.is_final:
                return MoneyChange()
            is_cancel = operation.order.kind is MoveKind.CANCEL
            if is_cancel and order.state is PlacedState.OPEN:
                return self.unknown()(move)  # asked for, and not done yet
            after = (
                operations.cancel_seen(operation, order, now)
                if is_cancel
                else operations.seen(_found(operation, now), order, now)
            )
            settled = approvals.settled(move.action, order, now)
            if after.state is OperationState.OPEN and settled.state is ActionState.FAILED:
                # The venue says it is over, its last facts are on their way.
                settled = _awaiting(move.action, now)
            released = postings.release(after, now) if after.state.is_final else None
            if released is not None and released.operation is not None:
                after = released.operation
            is_news = after != operation and _is_told(move.action, settled)
            audit = AuditKind.FUND_MOVE
            books = (released.posting,) if released else ()
            if not is_news:
                return MoneyChange(operation=after, postings=books)
            return self._written(move, settled, audit, after, books)

        return step

    def unknown(self) -> MoneyStep:
        """The venue did not answer, or nobody knows any more: it is being asked."""

        def step(move: LockedMove) -> MoneyChange:
            operation, now = move.operation, move.standing.time
            if operation is None or operation.state not in {
                OperationState.SENT,
                OperationState.OPEN,
            }:
                return MoneyChange()
            doubted = operations.uncertain(operation, UNKNOWN_OUTCOME, now)
            return self._written(move, _awaiting(move.action, now), AuditKind.FUND_MOVE, doubted)

        return step

    def lapsed(self, reason: str, message: str) -> MoneyStep:
        """The request was over before it was handed to the venue: there is no copy of it."""

        def step(move: LockedMove) -> MoneyChange:
            operation = move.operation
            if operation is None or operation.state is not OperationState.SENT:
                return MoneyChange()
            return self._void(move, operation, reason, message)

        return step

    def void_held(self, reason: str, message: str) -> MoneyStep:
        """What was held and never sent is given back. The sender, if it still lives, finds the
        operation void and sends nothing."""

        def step(move: LockedMove) -> MoneyChange:
            operation = move.operation
            if operation is None or operation.state is not OperationState.HELD:
                return MoneyChange()
            return self._void(move, operation, reason, message)

        return step

    def absent(self) -> MoneyStep:
        """One more look found nothing at the venue."""

        def step(move: LockedMove) -> MoneyChange:
            operation, now = move.operation, move.standing.time
            if operation is None or operation.state.is_final:
                return MoneyChange()
            if operation.state in {OperationState.SENT, OperationState.OPEN}:
                return self.unknown()(move)
            looked = operations.absent(operation, now)
            if not operations.is_proven_absent(looked):
                return self._doubted(move, looked)
            is_cancel = operation.order.kind is MoveKind.CANCEL
            return self._void(
                move,
                looked,
                approvals.NOTHING_SENT,
                "the order was not cancelled: it is still open"
                if is_cancel
                else "the venue does not know this order and takes it no more: it did nothing",
            )

        return step

    def unanswered(self) -> MoneyStep:
        """The venue cannot say; after a day a person is told that they are needed."""

        def step(move: LockedMove) -> MoneyChange:
            operation = move.operation
            return MoneyChange() if operation is None else self._doubted(move, operation)

        return step

    def resolve(self, *, was_executed: bool, evidence: str) -> MoneyStep:
        """A person settles what nobody knows; NotReady (OPERATION_NOT_STUCK) before a day,
        Conflict when booked facts say otherwise."""

        def step(move: LockedMove) -> MoneyChange:
            operation, now = move.operation, move.standing.time
            if operation is None or operation.state.is_final:
                return MoneyChange()
            if not operations.needs_person(operation, now):
                raise NotReady(
                    "this operation is not stuck: the venue is still being asked",
                    reason=ErrorReason.OPERATION_NOT_STUCK,
                )
            if operation.filled_quantity and not was_executed:
                raise Conflict(
                    "the venue's own facts say that it was executed, at least in part",
                    reason=ErrorReason.CONFIRMATION_MISMATCH,
                )
            after = operations.resolved(operation, was_executed=was_executed, now=now)
            action = approvals.resolved(move.action, was_executed, evidence, now)
            return self._ended(move, after, action)

        return step

    def _pass_gates(self, move: LockedMove, given: ExecutionFacts) -> None:
        standing, action = move.standing, move.action
        latest = standing.latest_time
        has_run_back = latest is not None and latest - standing.time > CLOCK_LEEWAY
        if has_run_back and not exits.is_exit(action.order):
            raise ToolCallBlockedError(
                DenialReason.CLOCK_SKEW,
                gate="clock",
                message=f"the clock has run back, from {latest} to {standing.time}; "
                "when it is right, minara ledger adopt starts anew from it",
            )
        approvals.check_still_possible(action, standing.trading.state, given.running)
        funds = context_of(standing, given.snapshot, but=action.pending_action_id)
        pass_stages(
            EXECUTING,
            StageInput(
                order=action.order,
                preview=action.preview,
                funds=funds,
                fresh=given.fresh,
                is_manual=self._is_manual(action),
            ),
        )

    def _is_manual(self, action: PendingAction) -> bool:
        entry = self.registry.entries.get(action.tool_name)
        return entry is not None and entry.permission_tier is PermissionTier.MANUAL_ONLY

    def _doubted(self, move: LockedMove, operation: Operation) -> MoneyChange:
        now, told = move.standing.time, move.action.outcome
        is_told = told is not None and told.reason == NEEDS_PERSON
        if is_told or not operations.needs_person(operation, now):
            return MoneyChange(operation=operation)
        asking = approvals.unfilled(
            move.action,
            ActionState.UNCERTAIN,
            reason=NEEDS_PERSON,
            message="nobody has known for a day what became of it: look at the venue yourself, "
            f"then minara ledger resolve {operation.operation_id}",
            now=now,
        )
        return self._written(move, asking, AuditKind.FUND_MOVE, operation)

    def _void(
        self, move: LockedMove, operation: Operation, reason: str, message: str
    ) -> MoneyChange:
        now = move.standing.time
        void = operations.voided(operation, reason, now)
        action = approvals.voided(move.action, reason=reason, message=message, now=now)
        return self._ended(move, void, action)

    def _ended(self, move: LockedMove, operation: Operation, action: PendingAction) -> MoneyChange:
        released = postings.release(operation, move.standing.time)
        after = released.operation if released else operation
        books = (released.posting,) if released else ()
        return self._written(move, action, AuditKind.FUND_MOVE, after, books)

    def _written(
        self,
        move: LockedMove,
        action: PendingAction,
        kind: AuditKind,
        operation: Operation | None = None,
        books: tuple[Posting, ...] = (),
    ) -> MoneyChange:
        entry = self.registry.entries.get(action.tool_name)
        now, trace_id = move.standing.time, self.tracing.trace_id()
        return MoneyChange(
            action=action,
            operation=operation,
            postings=books,
            audits=(action_record(action, kind, now=now, trace_id=trace_id),),
            tier_event=action_event(
                action, int(entry.permission_tier) if entry else 0, now=now, trace_id=trace_id
            ),
        )


def alarm_record(alarm: Alarm, user_id: UserId, now: datetime) -> AuditRecord:
    """The row of what must not happen."""
    return AuditRecord(
        user_id=user_id,
        kind=AuditKind.STATE_CHANGE,
        time=now,
        subject="trading",
        outcome=alarm.state.value,
        reason=alarm.kind.value,
        payload_json=dump_json(
            {
                "venue": alarm.venue,
                "account": alarm.account,
                "reason": alarm.reason,
                "operation_id": alarm.operation_id,
            }
        ),
    )


def _found(operation: Operation, now: datetime) -> Operation:
    """A held operation that the venue knows was sent after all."""
    if operation.state is not OperationState.HELD:
        return operation
    return operations.sent(operation, sign_time=now, not_after=None, now=now)


def _awaiting(action: PendingAction, now: datetime) -> PendingAction:
    if action.state is ActionState.UNCERTAIN:
        return action
    return approvals.unfilled(
        action,
        ActionState.UNCERTAIN,
        reason=UNKNOWN_OUTCOME,
        message="the venue did not answer; it is being asked what became of the order",
        now=now,
    )


def _is_told(before: PendingAction, after: PendingAction) -> bool:
    """Whether the outcome is another one than the person was told."""
    if before.outcome is None or after.outcome is None:
        return before is not after
    old, new = before.outcome, after.outcome
    return (old.state, old.message, old.filled_quantity) != (
        new.state,
        new.message,
        new.filled_quantity,
    )
