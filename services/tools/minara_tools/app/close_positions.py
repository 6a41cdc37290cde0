"""Selling out: a preview of the sale of everything a person holds, for them to confirm."""

from dataclasses import dataclass

from minara_core.actions import PendingAction
from minara_core.errors import MinaraError
from minara_core.ids import IdSource, SessionId, ToolCallId, TurnId, UserId
from minara_core.taxonomy import Origin, PermissionTier
from minara_tools.app.park_actions import ActionParking
from minara_tools.app.ports import Venue
from minara_tools.app.preview_move import MoveCall, MovePreview
from minara_tools.domain.assets import is_stablecoin
from minara_tools.domain.outcomes import ToolCallBlockedError, ToolFailed
from minara_tools.domain.registry import ToolContext, ToolRegistry

SELL_TOOL = "sell_token"


@dataclass(frozen=True, slots=True)
class PositionClosing:
    registry: ToolRegistry
    preview: MovePreview
    parking: ActionParking
    venue: Venue
    ids: IdSource

    async def park(self, user_id: UserId) -> tuple[PendingAction, ...]:
        """One pending sale for each asset that is no money; what cannot be sold is left out."""
        account = await self.venue.account(user_id)
        turn_id = TurnId(self.ids.new())
        made: list[PendingAction] = []
        for number, balance in enumerate(await self.venue.balances(account)):
            if balance.available <= 0 or is_stablecoin(balance.asset):
                continue
            call_id = ToolCallId(f"0.{number}")
            action = await self._sale(user_id, turn_id, call_id, balance.asset)
            made += [action] if action else []
        return tuple(made)

    async def _sale(
        self, user_id: UserId, turn_id: TurnId, call_id: ToolCallId, asset: str
    ) -> PendingAction | None:
        entry = self.registry.entries[SELL_TOOL]
        arguments = entry.arguments.model_validate(
            {"symbol": asset, "amount_unit": "all", "intent": "close all positions"}
        )
        call = MoveCall(
            entry=entry,
            arguments=arguments,
            context=ToolContext(
                user_id=user_id,
                session_id=SessionId(""),
                turn_id=turn_id,
                tool_call_id=call_id,
                origin=Origin.HTTP,
                progress=lambda message, fraction: None,
            ),
            ceiling=PermissionTier.ALWAYS_CONFIRM,
            solicited=True,
            read_sources=(),
        )
        try:
            return await self.parking.park(await self.preview.action(call))
        except (ToolCallBlockedError, ToolFailed, MinaraError, OSError, TimeoutError):
            return None
