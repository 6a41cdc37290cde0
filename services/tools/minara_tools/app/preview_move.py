"""A money call becomes a pending action: quoted, judged, stored, and nothing sent."""

import asyncio
from dataclasses import dataclass

from minara_core.actions import ActionState, PendingAction
from minara_core.clock import Clock
from minara_core.ids import IdSource, PendingActionId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import TradingState
from minara_tools.domain import approvals
from minara_tools.domain.action_json import action_hash
from minara_tools.domain.hooks import GateInput
from minara_tools.domain.intent import is_solicited, named_move
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry


@dataclass(frozen=True, slots=True)
class MovePreview:
    clock: Clock
    ids: IdSource

    async def action(
        self, entry: ToolEntry, given: GateInput, context: ToolContext
    ) -> PendingAction:
        """Quote the call. Raises what the quote raises, TimeoutError, and ToolCallBlockedError when
        the trading state forbids the resolved order."""
        assert entry.quote is not None
        async with asyncio.timeout(entry.timeout_seconds):
            quotation = await entry.quote(given.arguments, context)
        _refuse_by_trading_state(quotation, given.ledger.trading_state)
        move = None if given.arguments is None else named_move(entry, given.arguments)
        now = self.clock.now()
        return PendingAction(
            pending_action_id=PendingActionId(self.ids.new()),
            user_id=given.ledger.user_id,
            session_id=given.ledger.session_id,
            turn_id=given.ledger.turn_id,
            tool_call_id=given.call.tool_call_id,
            tool_name=entry.name,
            state=ActionState.PENDING,
            order=quotation.order,
            preview=quotation.preview,
            action_hash=action_hash(quotation.order, quotation.preview),
            create_time=now,
            expire_time=now + approvals.LIFETIME,
            solicited=is_solicited(given.ledger.human_messages, move),
            read_sources=given.ledger.read_sources,
        )


def _refuse_by_trading_state(quotation: Quotation, state: TradingState) -> None:
    if not approvals.forbids(state, quotation.order):
        return
    reason = (
        DenialReason.TRADING_HALTED
        if state is TradingState.HALTED
        else DenialReason.TRADING_REDUCING
    )
    raise ToolCallBlockedError(
        reason,
        gate="trading_state",
        message=f"trading is {state.value}: only what reduces exposure may be sent",
    )
