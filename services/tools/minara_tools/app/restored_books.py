"""Books that were restored or copied are trusted with nothing until a person has looked at them.

What such a database believes to wait may have been executed since: all of it is void, and the
installation is halted. What was sent is looked up at the venue as always (safety.md §4).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from minara_core.actions import PendingAction
from minara_core.audit import AuditKind, AuditRecord
from minara_core.clock import Clock
from minara_core.ids import PendingActionId, UserId
from minara_core.taxonomy import TradingState
from minara_core.tooling import dump_json
from minara_tools.app.confirm_action import change_of
from minara_tools.app.fund_ledger import FundLedger
from minara_tools.app.move_steps import MoveSteps
from minara_tools.app.ports import Venue
from minara_tools.app.stores import ActionChange, ActionStore, TradingStates
from minara_tools.domain import approvals
from minara_tools.domain.trading import INSTALLATION, TradingStanding

RESTORED = "BOOKS_RESTORED"
_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RestoredBooks:
    ledger: FundLedger
    states: TradingStates
    actions: ActionStore
    steps: MoveSteps
    venue: Venue
    clock: Clock

    async def begin(self) -> str:
        """Look at the books before anything uses them; why they are not trusted, or nothing."""
        reason = await self.ledger.begin()
        if reason:
            way_out = "compare them with the venue, then minara ledger adopt"
            await self._set(TradingState.HALTED, f"{reason}; {way_out}")
            await self._void_what_waits()
        return reason

    async def adopt(self) -> None:
        """Trust these books again: a person has looked at them. Does nothing to books that are
        trusted, by this replica or by another that adopted them."""
        if await self.ledger.adopt():
            await self._set(TradingState.ACTIVE, "adopted")

    async def _void_what_waits(self) -> None:
        while waiting := await self.actions.overdue(_FOR_EVER):
            for action in waiting:
                await self.actions.change(action.pending_action_id, action.user_id, self._void)
        message = "the books were restored: nothing was sent"
        for operation in await self.ledger.unsettled(self.venue.name):
            await self.ledger.change(
                operation.user_id,
                PendingActionId(operation.operation_id),
                self.steps.void_held(RESTORED, message),
            )

    def _void(self, action: PendingAction, trading: TradingStanding) -> ActionChange:
        del trading
        void = approvals.voided(
            action, reason=RESTORED, message="the books were restored", now=self.clock.now()
        )
        return change_of(
            void, AuditKind.STATE_CHANGE, self.steps.registry, self.clock, self.steps.tracing
        )

    async def _set(self, state: TradingState, reason: str) -> None:
        now = self.clock.now()
        audit = AuditRecord(
            user_id=UserId(INSTALLATION),
            kind=AuditKind.STATE_CHANGE,
            time=now,
            subject="trading",
            outcome=state.value,
            reason=RESTORED,
            payload_json=dump_json({"reason": reason}),
        )
        await self.states.set_installation(state, reason, now=now, audit=audit)
