"""A person's decision on a stored preview: confirmed at most once, or rejected for good.

The order of a confirmation: EXECUTING is on disk before the first byte goes to the venue; the venue
is asked once; its answer is on disk before the decision is answered. What is cut off in between is
looked up at the next start and never sent again (settle_actions).
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from minara_core.actions import ActionState, Decision, PendingAction
from minara_core.audit import AuditKind
from minara_core.clock import Clock, pause
from minara_core.errors import MinaraError, NotAuthenticated
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.grant import Grant
from minara_core.ids import PendingActionId, UserId
from minara_core.reasons import ErrorReason
from minara_tools.app.observing import Tracing
from minara_tools.app.ports import Venue
from minara_tools.app.records import action_event, action_record
from minara_tools.app.stores import ActionChange, ActionStep, ActionStore
from minara_tools.domain import approvals
from minara_tools.domain.approvals import Configuration
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.trading import TradingStanding

CONFIRM_SENT = "confirm.sent"
CONFIRM_PLACED = "confirm.placed"
CONFIRM_RECORDED = "confirm.recorded"
FAILPOINTS = (CONFIRM_SENT, CONFIRM_PLACED, CONFIRM_RECORDED)

UNKNOWN_OUTCOME = "OUTCOME_UNKNOWN"
SEND_WITHIN = timedelta(seconds=5)
"""A process that was held up longer than this after the decision sends nothing any more: another
one may soon conclude that nothing was sent."""
PLACE_SECONDS = 25.0
"""After this the venue's answer is awaited no more; the order is looked up instead."""
POLL_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """Which action a person decides, and the hash of what they were shown."""

    pending_action_id: PendingActionId
    action_hash: str


class ActionDecisions:
    def __init__(
        self,
        actions: ActionStore,
        registry: ToolRegistry,
        venue: Venue,
        *,
        clock: Clock,
        tracing: Tracing,
        failpoint: Failpoint = no_failpoint,
        place_seconds: float = PLACE_SECONDS,
    ) -> None:
        self._actions = actions
        self._registry = registry
        self._venue = venue
        self._clock = clock
        self._tracing = tracing
        self._failpoint = failpoint
        self._place_seconds = place_seconds
        self._running: dict[PendingActionId, asyncio.Task[PendingAction]] = {}

    @property
    def in_flight(self) -> frozenset[PendingActionId]:
        """Actions that this process is sending now."""
        return frozenset(self._running)

    async def confirm(self, grant: Grant, request: DecisionRequest) -> PendingAction:
        """Execute the stored order, or return what came of it; never executes twice.

        Raises NotAuthenticated (GRANT_MISMATCH), NotFound (ACTION_NOT_FOUND), Conflict
        (CONFIRMATION_MISMATCH, _USED, _EXPIRED). A caller that goes away stops nothing.
        """
        _check_grant(grant, request, Decision.CONFIRM)
        user_id = UserId(grant.subject)
        action = await self._actions.find(request.pending_action_id, user_id)
        approvals.refuse_unless_open(action, action_hash=request.action_hash, confirms=True)
        running = self._running.get(request.pending_action_id)
        if running is None:
            running = asyncio.create_task(self._execute(request, user_id))
            self._running[request.pending_action_id] = running
            running.add_done_callback(lambda _: self._running.pop(request.pending_action_id, None))
        return await asyncio.shield(running)

    async def reject(self, grant: Grant, request: DecisionRequest) -> PendingAction:
        """Reject for good. Raises as `confirm`."""
        _check_grant(grant, request, Decision.REJECT)

        def step(action: PendingAction, trading: TradingStanding) -> ActionChange:
            del trading
            now = self._clock.now()
            approvals.refuse_unless_open(action, action_hash=request.action_hash, confirms=False)
            if action.state is not ActionState.PENDING:
                return ActionChange()
            if approvals.has_expired(action, now):
                return self._change(approvals.expired(action, now), AuditKind.STATE_CHANGE)
            return self._change(approvals.rejected(action, now), AuditKind.DECISION)

        action = await self._actions.change(request.pending_action_id, UserId(grant.subject), step)
        if action.state is ActionState.EXPIRED:
            raise approvals.too_late(action)
        return action

    async def aclose(self) -> None:
        """Wait until everything in flight is recorded."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def _execute(self, request: DecisionRequest, user_id: UserId) -> PendingAction:
        begun = False
        running = await self._configuration(request.pending_action_id, user_id)

        def step(action: PendingAction, trading: TradingStanding) -> ActionChange:
            nonlocal begun
            begun = False
            now = self._clock.now()
            approvals.refuse_unless_open(action, action_hash=request.action_hash, confirms=True)
            if action.state is not ActionState.PENDING:
                return ActionChange()
            if approvals.has_expired(action, now):
                return self._change(approvals.expired(action, now), AuditKind.STATE_CHANGE)
            decided = approvals.executing(
                action, now=now, trading_state=trading.state, running=running
            )
            begun = decided.state is ActionState.EXECUTING
            return self._change(decided, AuditKind.DECISION)

        action = await self._actions.change(request.pending_action_id, user_id, step)
        if action.state is ActionState.EXPIRED:
            raise approvals.too_late(action)
        return await (self._send(action) if begun else self._elsewhere(action))

    async def _configuration(self, action_id: PendingActionId, user_id: UserId) -> Configuration:
        action = await self._actions.find(action_id, user_id)
        entry = self._registry.entries.get(action.tool_name)
        return Configuration(
            mode=self._venue.mode,
            venue=self._venue.name,
            account=await self._venue.account(user_id),
            symbols=frozenset(rules.symbol for rules in await self._venue.instruments()),
            can_execute=entry is not None and entry.execute is not None,
        )

    async def _send(self, action: PendingAction) -> PendingAction:
        self._failpoint(CONFIRM_SENT)
        step = self._too_late() if self._was_held_up(action) else await self._placed(action)
        self._failpoint(CONFIRM_PLACED)
        settled = await self._actions.change(action.pending_action_id, action.user_id, step)
        self._failpoint(CONFIRM_RECORDED)
        return settled

    def _was_held_up(self, action: PendingAction) -> bool:
        decided = action.outcome.decide_time if action.outcome else None
        return decided is None or self._clock.now() - decided > SEND_WITHIN

    def _too_late(self) -> ActionStep:
        return self._unfilled(
            ActionState.VOIDED,
            approvals.NOTHING_SENT,
            "this process was held up before it could send the order: nothing was sent",
        )

    async def _placed(self, action: PendingAction) -> ActionStep:
        """Ask the venue once; what its answer makes of the action."""
        execute = self._registry.entries[action.tool_name].execute
        assert execute is not None
        client_order_id = action.outcome.client_order_id if action.outcome else ""
        try:
            async with asyncio.timeout(self._place_seconds):
                placed = await execute(action.order, client_order_id)
        except ToolFailed as refused:
            return self._unfilled(ActionState.FAILED, refused.reason, refused.message)
        except (MinaraError, OSError, TimeoutError):
            return self._unfilled(
                ActionState.UNCERTAIN,
                UNKNOWN_OUTCOME,
                "the venue did not answer; it is being asked what became of the order",
            )

        def settle(current: PendingAction, trading: TradingStanding) -> ActionChange:
            del trading
            if current.state.is_final:
                return ActionChange()
            settled = approvals.settled(current, placed, self._clock.now())
            return self._change(settled, AuditKind.FUND_MOVE)

        return settle

    def _unfilled(self, state: ActionState, reason: str, message: str) -> ActionStep:
        def settle(current: PendingAction, trading: TradingStanding) -> ActionChange:
            del trading
            if current.state.is_final:
                return ActionChange()
            ended = approvals.unfilled(
                current, state, reason=reason, message=message, now=self._clock.now()
            )
            return self._change(ended, AuditKind.FUND_MOVE)

        return settle

    async def _elsewhere(self, action: PendingAction) -> PendingAction:
        """The same decision taken before; while another process executes it, wait for its end."""
        end = self._clock.monotonic() + LONGEST_WAIT_SECONDS
        while action.state is ActionState.EXECUTING and self._clock.monotonic() < end:
            await pause(POLL_SECONDS)
            action = await self._actions.find(action.pending_action_id, action.user_id)
        return action

    def _change(self, action: PendingAction, kind: AuditKind) -> ActionChange:
        return change_of(action, kind, self._registry, self._clock, self._tracing)


def change_of(
    action: PendingAction,
    kind: AuditKind,
    registry: ToolRegistry,
    clock: Clock,
    tracing: Tracing,
) -> ActionChange:
    """A changed action with the audit row and the tier event of its change."""
    entry = registry.entries.get(action.tool_name)
    now, trace_id = clock.now(), tracing.trace_id()
    return ActionChange(
        action=action,
        audits=(action_record(action, kind, now=now, trace_id=trace_id),),
        tier_event=action_event(
            action, int(entry.permission_tier) if entry else 0, now=now, trace_id=trace_id
        ),
    )


def _check_grant(grant: Grant, request: DecisionRequest, decision: Decision) -> None:
    bound = {
        "pending_action_id": (grant.pending_action_id, request.pending_action_id),
        "action_hash": (grant.action_hash, request.action_hash),
        "decision": (grant.decision, decision.value),
    }
    for field, (granted, asked) in bound.items():
        if granted != asked:
            raise NotAuthenticated(
                f"the grant does not cover this decision ({field})",
                reason=ErrorReason.GRANT_MISMATCH,
                metadata={"field": field},
            )
