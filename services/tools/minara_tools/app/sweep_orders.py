"""While trading is stopped, nothing of ours at the venue may still add to what a person holds."""

from dataclasses import dataclass

from minara_core.actions import MoveKind
from minara_core.clock import pause
from minara_core.errors import MinaraError
from minara_core.ids import PendingActionId, UserId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import TradingState
from minara_tools.app.fund_ledger import FundLedger
from minara_tools.app.move_steps import MoveSteps
from minara_tools.app.ports import Venue
from minara_tools.app.stores import TradingStates
from minara_tools.domain.exits import is_exit
from minara_tools.domain.operations import Operation, OperationState
from minara_tools.domain.outcomes import ToolFailed


@dataclass(frozen=True, slots=True)
class OrderSweep:
    """Cancels what rests and could add to exposure, and gives back what was held and not sent.
    Repeats until nothing of it is left; an order that turns up later is cancelled when it is
    seen."""

    ledger: FundLedger
    states: TradingStates
    steps: MoveSteps
    venue: Venue
    every_seconds: float

    async def run_forever(self) -> None:
        while True:
            await self.run_once()
            await pause(self.every_seconds)

    async def run_once(self) -> None:
        """Sweep for everybody whose trading is stopped."""
        states: dict[UserId, TradingState] = {}
        for operation in await self.ledger.unsettled(self.venue.name):
            user_id = operation.user_id
            if user_id not in states:
                states[user_id] = (await self.states.current(user_id)).state
            if states[user_id] is not TradingState.ACTIVE:
                await self._stop(operation, states[user_id], cancel_exits=False)

    async def of_user(self, user_id: UserId, *, cancel_exits: bool) -> list[Operation]:
        """Sweep for one person now; what is still open or not known afterwards. `cancel_exits` also
        ends the orders that protect a position."""
        for operation in await self.left_of(user_id):
            await self._stop(operation, TradingState.HALTED, cancel_exits=cancel_exits)
        return await self.left_of(user_id)

    async def left_of(self, user_id: UserId) -> list[Operation]:
        """What of a person's is not over."""
        return list(await self.ledger.unsettled(self.venue.name, user_id))

    async def _stop(self, operation: Operation, state: TradingState, *, cancel_exits: bool) -> None:
        action_id, order = PendingActionId(operation.operation_id), operation.order
        if operation.state is OperationState.HELD and state is TradingState.HALTED:
            void = self.steps.void_held(DenialReason.TRADING_HALTED, "trading was halted")
            await self.ledger.change(operation.user_id, action_id, void)
            return
        is_resting = operation.state is OperationState.OPEN and order.kind is MoveKind.TRADE
        if not is_resting or (is_exit(order) and not cancel_exits):
            return
        try:
            answer = await self.venue.cancel_order(order.account, operation.client_order_id)
        except (ToolFailed, MinaraError, OSError, TimeoutError):
            return
        settle = self.steps.settle(answer.order)
        await self.ledger.change(operation.user_id, action_id, settle, facts=answer.facts)
