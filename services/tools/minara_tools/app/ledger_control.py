"""What only a person may do to the books: settle what nobody knows, adopt what was restored."""

from dataclasses import dataclass

from minara_core.actions import PendingAction
from minara_core.errors import InvalidRequest
from minara_core.ids import PendingActionId, UserId
from minara_core.reasons import ErrorReason
from minara_tools.app.fund_ledger import FundLedger
from minara_tools.app.move_steps import MoveSteps
from minara_tools.app.restored_books import RestoredBooks


@dataclass(frozen=True, slots=True)
class LedgerControl:
    ledger: FundLedger
    steps: MoveSteps
    restored: RestoredBooks

    async def resolve(
        self, user_id: UserId, operation_id: str, *, was_executed: bool, evidence: str
    ) -> PendingAction:
        """Settle an operation that has been uncertain for a day; repeating it changes nothing.

        Raises NotFound for an unknown or foreign one, NotReady (OPERATION_NOT_STUCK), and
        InvalidRequest without evidence.
        """
        if not evidence.strip():
            raise InvalidRequest("say what shows it", reason=ErrorReason.FIELD_REQUIRED)
        step = self.steps.resolve(was_executed=was_executed, evidence=evidence)
        move = await self.ledger.change(user_id, PendingActionId(operation_id), step)
        return move.action

    async def adopt(self) -> None:
        """Go on with books that were restored or copied, or whose clock has run back; does nothing
        to any other."""
        await self.ledger.begin_time_anew()
        await self.restored.adopt()
