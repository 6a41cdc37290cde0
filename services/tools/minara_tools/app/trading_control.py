"""The emergency stop: halt at once, resume by a person's confirmation alone."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from minara_core.actions import ActionState, Decision, PendingAction
from minara_core.audit import AuditKind, AuditRecord
from minara_core.clock import Clock
from minara_core.errors import MinaraError, NotAuthenticated
from minara_core.grant import Grant
from minara_core.ids import PendingActionId, UserId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import TradingState
from minara_core.tooling import dump_json
from minara_tools.app.close_positions import PositionClosing
from minara_tools.app.confirm_action import change_of
from minara_tools.app.observing import Tracing
from minara_tools.app.stores import ActionChange, Halted, TradingStates
from minara_tools.app.sweep_orders import OrderSweep
from minara_tools.domain import approvals
from minara_tools.domain.mandates import Mandate
from minara_tools.domain.operations import Operation
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.trading import TradingStanding

SWEEP_SECONDS = 0.8
"""What is not swept by then is swept in the background."""
RESUME_ACTION_ID = "trading:resume"
"""What the confirmation grant of a resume binds in the place of an action's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltReport:
    """What a halt has done: `rejected` were waiting, `unsettled` are still open at the venue or not
    known, `closing` are the sales that wait for a person's yes; `problem` says why there are none
    though they were asked for."""

    standing: TradingStanding
    rejected: tuple[PendingActionId, ...]
    unsettled: tuple[Operation, ...]
    closing: tuple[PendingAction, ...]
    problem: str = ""


class TradingControl:
    def __init__(
        self,
        states: TradingStates,
        sweep: OrderSweep,
        closing: PositionClosing,
        registry: ToolRegistry,
        *,
        clock: Clock,
        tracing: Tracing,
    ) -> None:
        self._states = states
        self._sweep = sweep
        self._closing = closing
        self._registry = registry
        self._clock = clock
        self._tracing = tracing

    async def current(self, user_id: UserId) -> TradingStanding:
        return await self._states.current(user_id)

    async def halt(
        self,
        user_id: UserId,
        reason: str,
        *,
        cancel_protection: bool = False,
        close_positions: bool = False,
    ) -> HaltReport:
        """Nothing of the user's is sent from now on, what waits is rejected, and resting orders
        that could add to exposure are cancelled.

        Orders that protect a position stay unless `cancel_protection`. `close_positions` also makes
        a preview of the sale of each position, for the person to confirm.
        """
        halted = await self._halt(user_id, reason)
        left: list[Operation] = []
        try:
            async with asyncio.timeout(SWEEP_SECONDS):
                left = await self._sweep.of_user(user_id, cancel_exits=cancel_protection)
        except TimeoutError:
            left = await self._sweep.left_of(user_id)
        closing: tuple[PendingAction, ...] = ()
        problem = ""
        try:
            closing = await self._closing.park(user_id) if close_positions else ()
        except (ToolFailed, MinaraError, OSError, TimeoutError) as error:
            problem = f"halted; the positions could not be read: {error}"
        return HaltReport(
            standing=halted.standing,
            rejected=halted.rejected,
            unsettled=tuple(left),
            closing=closing,
            problem=problem,
        )

    async def _halt(self, user_id: UserId, reason: str) -> Halted:
        now = self._clock.now()

        def reject(action: PendingAction) -> ActionChange:
            if action.state is not ActionState.PENDING:
                return ActionChange()
            rejected = approvals.rejected(action, now, reason=DenialReason.TRADING_HALTED)
            return change_of(
                rejected, AuditKind.STATE_CHANGE, self._registry, self._clock, self._tracing
            )

        return await self._states.halt(
            user_id,
            reason=reason,
            now=now,
            reject=reject,
            audit=self._record(user_id, TradingState.HALTED, reason),
            revoke=self._revoked,
        )

    async def resume(self, grant: Grant, etag: str) -> TradingStanding:
        """Raises NotAuthenticated (GRANT_MISMATCH) unless the grant confirms resuming from this
        etag, and as TradingStates.resume."""
        bound = (grant.pending_action_id, grant.action_hash, grant.decision)
        if bound != (RESUME_ACTION_ID, etag, Decision.CONFIRM.value):
            raise NotAuthenticated(
                "the grant does not confirm resuming from this state",
                reason=ErrorReason.GRANT_MISMATCH,
                metadata={"field": "action_hash"},
            )
        user_id = UserId(grant.subject)
        return await self._states.resume(
            user_id,
            etag=etag,
            now=self._clock.now(),
            audit=self._record(user_id, TradingState.ACTIVE, "resumed"),
        )

    def _revoked(self, mandate: Mandate, now: datetime) -> AuditRecord:
        return AuditRecord(
            user_id=mandate.user_id,
            kind=AuditKind.STATE_CHANGE,
            time=now,
            subject=mandate.mandate_id,
            outcome="revoked",
            reason=DenialReason.TRADING_HALTED,
            trace_id=self._tracing.trace_id(),
        )

    def _record(self, user_id: UserId, state: TradingState, reason: str) -> AuditRecord:
        return AuditRecord(
            user_id=user_id,
            kind=AuditKind.STATE_CHANGE,
            time=self._clock.now(),
            subject="trading",
            outcome=state.value,
            trace_id=self._tracing.trace_id(),
            payload_json=dump_json({"reason": reason}),
        )
