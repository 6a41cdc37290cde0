"""A money call becomes a pending action: quoted, judged by the stages, and nothing sent."""

import asyncio
from dataclasses import dataclass, replace

from pydantic import BaseModel

from minara_core.actions import ActionState, PendingAction
from minara_core.clock import Clock
from minara_core.ids import IdSource, PendingActionId
from minara_core.taxonomy import PermissionTier
from minara_tools.app.gather_funds import FundGathering
from minara_tools.domain import approvals
from minara_tools.domain.action_json import action_hash, canonical_arguments
from minara_tools.domain.exits import refuse_when_stopped
from minara_tools.domain.funds import StageInput
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.domain.stages import ASKING, pass_stages


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCall:
    """A money call that has passed the gates. `ceiling` is what its step may do at most,
    `solicited` whether the person's own words name it, `read_sources` what the turn has read from
    outside, `is_manual` when a person filled it in by hand."""

    entry: ToolEntry
    arguments: BaseModel
    context: ToolContext
    ceiling: PermissionTier
    solicited: bool
    read_sources: tuple[str, ...]
    is_manual: bool = False


@dataclass(frozen=True, slots=True)
class MovePreview:
    clock: Clock
    ids: IdSource
    funds: FundGathering

    async def action(self, call: MoveCall) -> PendingAction:
        """Quote and judge the call. Raises what its tool's `quote` raises, TimeoutError, and
        ToolCallBlockedError for what a stage denies."""
        assert call.entry.quote is not None
        async with asyncio.timeout(call.entry.timeout_seconds):
            quotation = await call.entry.quote(call.arguments, call.context)
            quotation = await self._judged(call, quotation)
        now, context = self.clock.now(), call.context
        return PendingAction(
            pending_action_id=PendingActionId(self.ids.new()),
            user_id=context.user_id,
            session_id=context.session_id,
            turn_id=context.turn_id,
            tool_call_id=context.tool_call_id,
            tool_name=call.entry.name,
            origin=context.origin.value,
            state=ActionState.PENDING,
            order=quotation.order,
            preview=quotation.preview,
            action_hash=action_hash(quotation.order, quotation.preview),
            arguments_json=canonical_arguments(call.arguments),
            create_time=now,
            expire_time=now + approvals.LIFETIME,
            solicited=call.solicited,
            read_sources=call.read_sources,
        )

    async def _judged(self, call: MoveCall, quotation: Quotation) -> Quotation:
        """The quotation with the stages' warnings in its preview."""
        order, preview = quotation.order, quotation.preview
        instrument, user_id = order.instrument, call.context.user_id
        snapshot = await self.funds.snapshot(
            user_id, order.account, (instrument.base, instrument.quote)
        )
        funds = await self.funds.context(
            user_id,
            snapshot,
            lambda old: approvals.is_same_move(
                call.context.session_id, call.entry.name, order, old
            ),
        )
        refuse_when_stopped(funds.trading_state, order)
        given = StageInput(
            order=order,
            preview=preview,
            funds=funds,
            is_manual=call.is_manual,
            ceiling=call.ceiling,
        )
        warnings = dict.fromkeys((*preview.warnings, *pass_stages(ASKING, given)))
        return replace(quotation, preview=replace(preview, warnings=tuple(warnings)))
