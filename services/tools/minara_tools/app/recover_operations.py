"""Operations that nobody minds any more: looked up at the venue, and never sent.

What the venue knows is adopted and its facts are booked; what it does not know is void once that is
proven, or was never sent. An order that rests is followed until it ends (safety.md §4).
"""

from dataclasses import dataclass, field

from minara_core.actions import MoveKind, PendingAction, PlacedOrder, PlacedState
from minara_core.audit import AuditKind
from minara_core.clock import Clock, pause
from minara_core.errors import MinaraError
from minara_core.ids import PendingActionId
from minara_tools.app.confirm_action import ActionDecisions, change_of
from minara_tools.app.fund_ledger import FundLedger, MoneyStep
from minara_tools.app.move_steps import MoveSteps
from minara_tools.app.observing import ReportBug, Tracing
from minara_tools.app.ports import Venue
from minara_tools.app.stores import ActionChange, ActionStore
from minara_tools.domain import approvals
from minara_tools.domain.operations import (
    LOOK_BACK,
    Operation,
    OperationState,
    is_request_over,
    needs_person,
)
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.trading import TradingStanding
from minara_tools.domain.venue_terms import VenueFact

SENDER_GONE = "SENDER_GONE"
MISSED_FOR_SECONDS = 8.0
"""Longer than any venue takes a request after it was signed (operations.REQUEST_IS_OVER_BY says the
same of wall clocks, which may jump)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What one look at the venue found of an operation."""

    order: PlacedOrder | None
    facts: tuple[VenueFact, ...]
    is_known_otherwise: bool


@dataclass(frozen=True, slots=True)
class OperationRecovery:
    ledger: FundLedger
    actions: ActionStore
    decisions: ActionDecisions
    steps: MoveSteps
    registry: ToolRegistry
    venue: Venue
    clock: Clock
    tracing: Tracing
    report_bug: ReportBug
    every_seconds: float
    _missed_since: dict[str, float] = field(default_factory=dict[str, float])

    async def run_forever(self) -> None:
        while True:
            await self.expire_overdue()
            await self.settle()
            await pause(self.every_seconds)

    async def expire_overdue(self) -> None:
        """Expire what nobody decided in time."""
        for action in await self.actions.overdue(self.clock.now()):
            await self.actions.change(action.pending_action_id, action.user_id, self._expire)

    async def settle(self) -> None:
        """Look after every operation that is not over and that nobody is sending.

        One that the venue cannot answer for stays as it is until the next time.
        """
        unsettled = await self.ledger.unsettled(self.venue.name)
        for gone in self._missed_since.keys() - {one.operation_id for one in unsettled}:
            del self._missed_since[gone]
        for operation in unsettled:
            try:
                if not await self._is_minded(operation):
                    await self._settle(operation)
            except Exception as error:
                # One that cannot be understood keeps nobody else from being looked after.
                self.report_bug(error, f"operation {operation.operation_id}")

    async def _is_minded(self, operation: Operation) -> bool:
        """Whether its sender lives and will say what came of it."""
        is_elsewhere = operation.sender != self.steps.sender
        # A decision repeated here waits for whoever sends: it must not keep us from taking over.
        if not is_elsewhere and PendingActionId(operation.operation_id) in self.decisions.in_flight:
            return True
        is_on_its_way = operation.state in {
            OperationState.INTENT,
            OperationState.HELD,
            OperationState.SENT,
        }
        return is_on_its_way and is_elsewhere and await self.ledger.is_alive(operation.sender)

    async def _settle(self, operation: Operation) -> None:
        action_id = PendingActionId(operation.operation_id)
        try:
            look = await self._look(operation)
        except (ToolFailed, MinaraError, OSError, TimeoutError):
            if needs_person(operation, self.clock.now()):
                await self.ledger.change(operation.user_id, action_id, self.steps.unanswered())
            return
        if self._is_news(operation, look):
            step = self._step(operation, look)
            await self.ledger.change(operation.user_id, action_id, step, facts=look.facts)

    def _is_news(self, operation: Operation, look: _Look) -> bool:
        """Whether a look tells what the books do not have. Nothing is written otherwise: a resting
        order is looked at again and again."""
        if look.order is not None:
            is_resting = operation.state is OperationState.OPEN and (
                look.order.state is PlacedState.OPEN
            )
            return not (is_resting and look.order.filled_quantity == operation.filled_quantity)
        is_over = self._is_over(operation)
        is_waiting = operation.state is OperationState.UNCERTAIN and not look.is_known_otherwise
        return is_over or not is_waiting

    def _is_over(self, operation: Operation) -> bool:
        """Whether the request is over by the wall clock, and has been looked for long enough by a
        clock that nobody sets: a wall clock that jumps proves nothing."""
        now = self.clock.monotonic()
        begin = self._missed_since.setdefault(operation.operation_id, now)
        is_long = now - begin >= MISSED_FOR_SECONDS
        return is_long and is_request_over(operation, self.clock.now())

    def _step(self, operation: Operation, look: _Look) -> MoneyStep:
        is_cancel = operation.order.kind is MoveKind.CANCEL
        is_held = operation.state is OperationState.HELD
        # What a held cancel was to end may have ended by itself: nothing was asked of the venue.
        if is_held and (is_cancel or look.order is None):
            return self.steps.void_held(
                SENDER_GONE, "the process that was to send it is gone: nothing was sent"
            )
        if look.order is not None and not (is_cancel and look.order.state is PlacedState.OPEN):
            return self.steps.settle(look.order)
        return self.steps.unknown() if look.is_known_otherwise else self.steps.absent()

    async def _look(self, operation: Operation) -> _Look:
        """Every way in which the venue could know of it."""
        order, client_id = operation.order, operation.client_order_id
        if order.kind is MoveKind.CANCEL:
            target = await self.venue.find_order(order.account, order.cancels)
            return _Look(order=target, facts=(), is_known_otherwise=False)
        since = (operation.sent_time or operation.create_time) - LOOK_BACK
        found = await self.venue.find_order(order.account, client_id)
        facts = await self.venue.facts(order.account, since)
        if order.kind is MoveKind.TRANSFER:
            facts = (*facts, *await self.venue.facts(order.recipient, since))
        if found is not None:
            return _Look(order=found, facts=facts, is_known_otherwise=False)
        others = (
            *await self.venue.open_orders(order.account),
            *await self.venue.closed_orders(order.account, since),
        )
        listed = [one for one in others if one.client_order_id == client_id]
        return _Look(
            order=listed[0] if listed else None,
            facts=facts,
            is_known_otherwise=any(fact.client_order_id == client_id for fact in facts),
        )

    def _expire(self, current: PendingAction, trading: TradingStanding) -> ActionChange:
        del trading
        now = self.clock.now()
        if not approvals.has_expired(current, now):
            return ActionChange()
        expired = approvals.expired(current, now)
        return change_of(expired, AuditKind.STATE_CHANGE, self.registry, self.clock, self.tracing)
