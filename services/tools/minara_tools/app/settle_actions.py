"""What nobody answers for any more: overdue previews, and orders whose sender is gone.

Recovery looks up and never sends. What the venue knows is booked; what it does not know was not
sent once its sender is dead for certain, or can no longer send.
"""

from datetime import timedelta

from minara_core.actions import ActionState, PendingAction, PlacedOrder, PlacedState
from minara_core.audit import AuditKind
from minara_core.clock import Clock, pause
from minara_core.errors import Unavailable
from minara_tools.app.confirm_action import ActionDecisions, change_of
from minara_tools.app.observing import Tracing
from minara_tools.app.ports import Venue
from minara_tools.app.stores import ActionChange, ActionStore, UnsettledAction
from minara_tools.domain import approvals
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.trading import TradingStanding

EVERY_SECONDS = 30.0
PROOF_OF_ABSENCE = timedelta(seconds=60)
"""An order that the venue still does not know after this was not sent, and will not be: its sender
has SEND_WITHIN to begin and PLACE_SECONDS to wait, with as much again for clocks that differ."""


class ActionSettling:
    def __init__(
        self,
        actions: ActionStore,
        decisions: ActionDecisions,
        registry: ToolRegistry,
        venue: Venue,
        *,
        clock: Clock,
        tracing: Tracing,
    ) -> None:
        self._actions = actions
        self._decisions = decisions
        self._registry = registry
        self._venue = venue
        self._clock = clock
        self._tracing = tracing

    async def run_forever(self) -> None:
        while True:
            await self.expire_overdue()
            await self.settle()
            await pause(EVERY_SECONDS)

    async def expire_overdue(self) -> None:
        """Expire what nobody decided in time."""
        for action in await self._actions.overdue(self._clock.now()):
            await self._actions.change(action.pending_action_id, action.user_id, self._expire)

    async def settle(self) -> None:
        """Ask the venue about every order whose outcome is open and that nobody is sending.

        One that the venue cannot answer for stays as it is until the next time.
        """
        for unsettled in await self._actions.unsettled(self._decisions.in_flight):
            action = unsettled.action
            known = action.outcome
            try:
                placed = await self._venue.find_order(
                    action.order.account, known.client_order_id if known else ""
                )
            except (Unavailable, ToolFailed, OSError, TimeoutError):
                continue
            if placed is not None:
                await self._adopt(action, placed)
            elif self._is_proven_absent(unsettled):
                await self._actions.change(action.pending_action_id, action.user_id, self._void)

    async def _adopt(self, action: PendingAction, placed: PlacedOrder) -> None:
        def step(current: PendingAction, trading: TradingStanding) -> ActionChange:
            del trading
            is_news = current.state is not ActionState.UNCERTAIN or (
                placed.state is not PlacedState.OPEN
            )
            if current.state.is_final or not is_news:
                return ActionChange()
            settled = approvals.settled(current, placed, self._clock.now())
            return self._change(settled, AuditKind.FUND_MOVE)

        await self._actions.change(action.pending_action_id, action.user_id, step)

    def _is_proven_absent(self, unsettled: UnsettledAction) -> bool:
        if unsettled.is_sender_dead:
            return True
        outcome = unsettled.action.outcome
        sent = outcome.decide_time if outcome else None
        return sent is not None and self._clock.now() - sent >= PROOF_OF_ABSENCE

    def _expire(self, current: PendingAction, trading: TradingStanding) -> ActionChange:
        del trading
        now = self._clock.now()
        if not approvals.has_expired(current, now):
            return ActionChange()
        return self._change(approvals.expired(current, now), AuditKind.STATE_CHANGE)

    def _void(self, current: PendingAction, trading: TradingStanding) -> ActionChange:
        del trading
        if current.state.is_final:
            return ActionChange()
        voided = approvals.unfilled(
            current,
            ActionState.VOIDED,
            reason=approvals.NOTHING_SENT,
            message="the venue does not know this order: nothing was sent",
            now=self._clock.now(),
        )
        return self._change(voided, AuditKind.FUND_MOVE)

    def _change(self, action: PendingAction, kind: AuditKind) -> ActionChange:
        return change_of(action, kind, self._registry, self._clock, self._tracing)
