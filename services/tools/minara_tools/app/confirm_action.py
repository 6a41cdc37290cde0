"""A person's decision on a stored preview: confirmed at most once, or rejected for good."""

import asyncio
from dataclasses import dataclass, replace

from minara_core.actions import ActionState, Decision, PendingAction
from minara_core.audit import AuditKind
from minara_core.clock import Clock, pause
from minara_core.errors import NotAuthenticated
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.grant import Grant
from minara_core.ids import PendingActionId, UserId
from minara_core.reasons import DenialReason, ErrorReason
from minara_tools.app.execute_move import MoveExecution
from minara_tools.app.observing import Tracing
from minara_tools.app.quote_again import QuoteAgain
from minara_tools.app.records import action_event, action_record
from minara_tools.app.stores import ActionChange, ActionStore
from minara_tools.domain import approvals
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.trading import TradingStanding

CONFIRM_REPLY = "confirm.reply"

POLL_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 25.0
_PRICE_MOVED = frozenset({DenialReason.SLIPPAGE_EXCEEDED, DenialReason.PRICE_IMPACT_EXCEEDED})


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
        execution: MoveExecution,
        again: QuoteAgain,
        *,
        clock: Clock,
        tracing: Tracing,
        failpoint: Failpoint = no_failpoint,
    ) -> None:
        self._actions = actions
        self._registry = registry
        self._execution = execution
        self._again = again
        self._clock = clock
        self._tracing = tracing
        self._failpoint = failpoint
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
        action = await self._actions.find(request.pending_action_id, UserId(grant.subject))
        approvals.refuse_unless_open(action, action_hash=request.action_hash, confirms=True)
        running = self._running.get(request.pending_action_id)
        if running is None:
            running = asyncio.create_task(self._execute(action, request))
            self._running[request.pending_action_id] = running
            running.add_done_callback(lambda _: self._running.pop(request.pending_action_id, None))
        decided = await asyncio.shield(running)
        self._failpoint(CONFIRM_REPLY)
        return decided

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

    async def _execute(self, action: PendingAction, request: DecisionRequest) -> PendingAction:
        if action.state is not ActionState.PENDING:
            return await self._elsewhere(action)
        decided = await self._execution.run(action, request.action_hash)
        if decided.state is ActionState.EXPIRED:
            raise approvals.too_late(decided)
        outcome = decided.outcome
        if decided.state is ActionState.VOIDED and outcome and outcome.reason in _PRICE_MOVED:
            return await self._with_new_preview(decided)
        return await self._elsewhere(decided)

    async def _with_new_preview(self, void: PendingAction) -> PendingAction:
        """The void action, told with the preview that takes its place, if one can be made now."""
        made = await self._again.park(void)
        if made is None:
            return void

        def step(action: PendingAction, trading: TradingStanding) -> ActionChange:
            del trading
            assert action.outcome is not None
            told = replace(action.outcome, replaced_by=made.pending_action_id)
            return ActionChange(action=replace(action, outcome=told))

        return await self._actions.change(void.pending_action_id, void.user_id, step)

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
