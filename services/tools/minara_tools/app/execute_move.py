"""A confirmed move on its way: held, signed, sent once, booked.

What each step needs is on disk before the next begins; whoever finds a move cut off between two of
them looks it up at the venue and never sends (recover_operations).
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from minara_core.actions import ActionState, MoveKind, PendingAction, ResolvedOrder, TimeInForce
from minara_core.clock import Clock
from minara_core.errors import MinaraError
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import PendingActionId, UserId
from minara_tools.app.fund_ledger import FundLedger, LockedMove, MoneyStep
from minara_tools.app.gather_funds import FundGathering
from minara_tools.app.move_steps import ExecutionFacts, MoveSteps
from minara_tools.app.observing import PASSED, SEND, STAGES
from minara_tools.app.ports import Venue
from minara_tools.domain.approvals import Configuration
from minara_tools.domain.operations import LOOK_BACK, OperationState
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.venue_terms import VenueAnswer, VenueFact, VenueQuote, VenueRequest

CONFIRM_INTENT = "confirm.intent"
CONFIRM_HELD = "confirm.held"
CONFIRM_SIGNED = "confirm.signed"
CONFIRM_SENT = "confirm.sent"
CONFIRM_ACCEPTED = "confirm.accepted"
CONFIRM_POSTED = "confirm.posted"
FAILPOINTS = (
    CONFIRM_INTENT,
    CONFIRM_HELD,
    CONFIRM_SIGNED,
    CONFIRM_SENT,
    CONFIRM_ACCEPTED,
    CONFIRM_POSTED,
)

REQUEST_EXPIRED = "REQUEST_EXPIRED"
NOT_SIGNED = "REQUEST_UNSIGNED"
SEND_SECONDS = 25.0
"""After this the venue's answer is awaited no more; the order is looked up instead."""
OLDEST_ON_ARRIVAL = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What `MoveExecution` is made of."""

    ledger: FundLedger
    venue: Venue
    funds: FundGathering
    steps: MoveSteps
    registry: ToolRegistry
    clock: Clock
    failpoint: Failpoint = no_failpoint
    send_seconds: float = SEND_SECONDS


class MoveExecution:
    def __init__(self, parts: Execution) -> None:
        self._parts = parts

    async def run(self, action: PendingAction, action_hash: str) -> PendingAction:
        """Execute a pending action that a person has confirmed with this hash.

        A gate that refuses makes it VOIDED, and nothing is sent. Raises Conflict as
        `approvals.refuse_unless_open`.
        """
        parts = self._parts
        given = await self._gathered(action)
        parts.failpoint(CONFIRM_INTENT)
        with parts.steps.tracing.part(STAGES) as span:
            held = await self._change(action, parts.steps.hold(action_hash, given))
            span.tell(PASSED if self._is_mine(held) else held.action.state.value)
        if not self._is_mine(held):
            return held.action
        parts.failpoint(CONFIRM_HELD)
        request = await self._signed(held)
        if request is None:
            return await self._never_sent(held.action)
        parts.failpoint(CONFIRM_SIGNED)
        sent = await self._change(action, parts.steps.send(request))
        if sent.operation is None or sent.operation.state is not OperationState.SENT:
            return sent.action
        parts.failpoint(CONFIRM_SENT)
        settled = await self._settled(sent, request)
        parts.failpoint(CONFIRM_POSTED)
        return settled

    def _is_mine(self, move: LockedMove) -> bool:
        operation = move.operation
        return (
            operation is not None
            and operation.state is OperationState.HELD
            and operation.sender == self._parts.steps.sender
        )

    async def _signed(self, move: LockedMove) -> VenueRequest | None:
        assert move.operation is not None
        try:
            return await self._parts.venue.prepare(
                move.action.order, move.operation.client_order_id
            )
        except (ToolFailed, MinaraError, OSError, TimeoutError):
            return None

    async def _never_sent(self, action: PendingAction) -> PendingAction:
        void = self._parts.steps.void_held(
            NOT_SIGNED, "the venue's request could not be made: nothing was sent"
        )
        return (await self._change(action, void)).action

    async def _settled(self, sent: LockedMove, request: VenueRequest) -> PendingAction:
        parts, action = self._parts, sent.action
        if request.deadline is not None and parts.clock.monotonic() > request.deadline:
            lapsed = parts.steps.lapsed(REQUEST_EXPIRED, "it was not sent within its validity")
            return (await self._change(action, lapsed)).action
        try:
            with parts.steps.tracing.part(SEND):
                async with asyncio.timeout(parts.send_seconds):
                    answer = await parts.venue.send(request)
        except (ToolFailed, MinaraError, OSError, TimeoutError):
            # Refused, even as late, is not certain: a second copy may yet be taken by a venue whose
            # clock, or whose next door's, runs behind.
            return (await self._change(action, parts.steps.unknown())).action
        parts.failpoint(CONFIRM_ACCEPTED)
        booked = await self._booked(sent, answer)
        if action.order.kind is MoveKind.CANCEL:
            await self._give_back(action.order, action.user_id)
        return booked

    async def _booked(self, sent: LockedMove, answer: VenueAnswer) -> PendingAction:
        parts, action = self._parts, sent.action
        settle = parts.steps.settle(answer.order)
        move = await parts.ledger.change(
            action.user_id, action.pending_action_id, settle, facts=answer.facts
        )
        if _is_whole(move):
            return move.action
        facts = await self._all_facts(sent)
        move = await parts.ledger.change(
            action.user_id, action.pending_action_id, settle, facts=facts
        )
        return move.action

    async def _give_back(self, cancel: ResolvedOrder, user_id: UserId) -> None:
        """What the cancelled order held is free at once, for the sale that often comes next; what
        fails here, recovery does later."""
        parts = self._parts
        try:
            for operation in await parts.ledger.unsettled(parts.venue.name, user_id):
                if operation.client_order_id != cancel.cancels:
                    continue
                since = (operation.sent_time or operation.create_time) - LOOK_BACK
                target = await parts.venue.find_order(cancel.account, cancel.cancels)
                facts = await parts.venue.facts(cancel.account, since)
                if target is not None:
                    action_id = PendingActionId(operation.operation_id)
                    settle = parts.steps.settle(target)
                    await parts.ledger.change(user_id, action_id, settle, facts=facts)
        except (ToolFailed, MinaraError, OSError, TimeoutError):
            return

    async def _all_facts(self, sent: LockedMove) -> tuple[VenueFact, ...]:
        """What happened since a little before the send, also where a transfer arrives; what cannot
        be read now, recovery and reconciliation read later."""
        assert sent.operation is not None
        since = (sent.operation.sent_time or sent.operation.create_time) - LOOK_BACK
        order = sent.action.order
        accounts = {order.account} | (
            {order.recipient} if order.kind is MoveKind.TRANSFER else set[str]()
        )
        found: list[VenueFact] = []
        try:
            for account in sorted(accounts):
                found += await self._parts.venue.facts(account, since)
        except (ToolFailed, MinaraError, OSError, TimeoutError):
            pass  # what was read counts
        return tuple(found)

    async def _gathered(self, action: PendingAction) -> ExecutionFacts:
        parts, order = self._parts, action.order
        entry = parts.registry.entries.get(action.tool_name)
        instrument = order.instrument
        snapshot = await parts.funds.snapshot(
            action.user_id, order.account, (instrument.base, instrument.quote)
        )
        return ExecutionFacts(
            running=Configuration(
                mode=parts.venue.mode,
                venue=parts.venue.name,
                accounts=frozenset(one.account for one in snapshot.accounts),
                symbols=frozenset(snapshot.listings),
                can_execute=entry is not None and entry.is_fund_moving,
            ),
            snapshot=snapshot,
            fresh=await self._fresh(order),
        )

    async def _fresh(self, order: ResolvedOrder) -> VenueQuote | None:
        """The venue's quote of now; one that was under way for too long is asked for once more."""
        if order.kind is not MoveKind.TRADE or order.time_in_force is TimeInForce.GTC:
            return None
        parts, quote = self._parts, None
        for _ in range(2):
            try:
                quote = await parts.venue.quote(order.instrument.symbol, order.side, order.quantity)
            except (ToolFailed, MinaraError, OSError, TimeoutError):
                return None
            if parts.clock.now() - quote.quote_time <= OLDEST_ON_ARRIVAL:
                break
        return quote

    async def _change(self, action: PendingAction, step: MoneyStep) -> LockedMove:
        return await self._parts.ledger.change(action.user_id, action.pending_action_id, step)


def _is_whole(move: LockedMove) -> bool:
    """Whether the answer told all there is: a transfer arrives in another account's facts."""
    operation = move.operation
    if operation is None or operation.order.kind is MoveKind.TRANSFER:
        return operation is None
    return operation.state is not OperationState.OPEN or move.action.state is ActionState.DONE
