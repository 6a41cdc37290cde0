"""When a changed price has voided a confirmed move, its new preview comes at once."""

from dataclasses import dataclass, replace

from pydantic import ValidationError

from minara_core.actions import PendingAction
from minara_core.errors import MinaraError
from minara_core.ids import ToolCallId
from minara_core.taxonomy import Origin, PermissionTier
from minara_tools.app.park_actions import ActionParking
from minara_tools.app.preview_move import MoveCall, MovePreview
from minara_tools.domain.action_json import read_json
from minara_tools.domain.outcomes import ToolCallBlockedError, ToolFailed
from minara_tools.domain.registry import ToolContext, ToolRegistry

AGAIN = "again"
"""Marks the call id of a preview that replaced another."""


@dataclass(frozen=True, slots=True)
class QuoteAgain:
    registry: ToolRegistry
    preview: MovePreview
    parking: ActionParking

    async def park(self, void: PendingAction) -> PendingAction | None:
        """A pending action for the same words at the price of now; None when there can be none."""
        entry = self.registry.entries.get(void.tool_name)
        if entry is None or entry.quote is None:
            return None
        try:
            arguments = entry.arguments.model_validate(
                {**read_json(void.arguments_json), "intent": "as confirmed"}
            )
            made = await self.preview.action(
                MoveCall(
                    entry=entry,
                    arguments=arguments,
                    context=ToolContext(
                        user_id=void.user_id,
                        session_id=void.session_id,
                        turn_id=void.turn_id,
                        tool_call_id=ToolCallId(f"{void.tool_call_id}/{AGAIN}"),
                        origin=Origin.HTTP,
                        progress=lambda message, fraction: None,
                    ),
                    ceiling=PermissionTier.ALWAYS_CONFIRM,
                    solicited=void.solicited,
                    read_sources=void.read_sources,
                    is_manual=entry.permission_tier is PermissionTier.MANUAL_ONLY,
                )
            )
            return await self.parking.park(replace(made, possible_duplicate=False))
        except (ToolCallBlockedError, ToolFailed, MinaraError, OSError, TimeoutError):
            return None
        except ValidationError:
            return None
