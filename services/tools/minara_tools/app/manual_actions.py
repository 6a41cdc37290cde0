"""What only a person does, by hand: they fill it in, it is judged, and it waits for their yes."""

from dataclasses import dataclass

from minara_core.errors import Conflict, InvalidRequest, MinaraError, NotFound
from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, PermissionTier
from minara_core.tooling import ToolCall, ToolFailure, ToolOutcome, ToolPending, ToolResult
from minara_tools.app.park_actions import ActionParking
from minara_tools.app.preview_move import MoveCall, MovePreview
from minara_tools.app.stores import ActionStore
from minara_tools.domain import results
from minara_tools.domain.arguments import validated
from minara_tools.domain.outcomes import ToolCallBlockedError, ToolFailed
from minara_tools.domain.registry import ToolContext, ToolEntry, ToolRegistry

CALL_ID = ToolCallId("manual")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualRequest:
    """`request_id` names the filled-in form: sent again, it is the same action."""

    tool_name: str
    arguments_json: str
    request_id: str


@dataclass(frozen=True, slots=True)
class ManualActions:
    registry: ToolRegistry
    actions: ActionStore
    preview: MovePreview
    parking: ActionParking

    async def run(self, user_id: UserId, request: ManualRequest) -> ToolResult:
        """A pending action, or why there is none; nothing moves.

        Raises NotFound for what is no manual tool, InvalidRequest for its arguments or a request
        without an id.
        """
        entry = self.registry.entries.get(request.tool_name)
        if entry is None or entry.quote is None or not _is_manual(entry):
            raise NotFound("no such manual action", reason=ErrorReason.ROUTE_NOT_FOUND)
        if not 8 <= len(request.request_id) <= 64 or not request.request_id.isascii():
            raise InvalidRequest("request_id: 8 to 64 characters", metadata={"field": "request_id"})
        call = ToolCall(
            tool_call_id=CALL_ID, name=entry.name, arguments_json=request.arguments_json
        )
        known = await self.actions.of_call(user_id, _turn_id(user_id, request), CALL_ID)
        outcome = ToolPending(action=known) if known else await self._park(user_id, entry, request)
        return results.result(call, outcome)

    async def _park(self, user_id: UserId, entry: ToolEntry, request: ManualRequest) -> ToolOutcome:
        try:
            arguments = validated(entry, request.arguments_json)
        except ToolCallBlockedError as wrong:
            raise InvalidRequest(wrong.message, metadata=wrong.metadata) from wrong
        call = MoveCall(
            entry=entry,
            arguments=arguments,
            context=ToolContext(
                user_id=user_id,
                session_id=SessionId(""),
                turn_id=_turn_id(user_id, request),
                tool_call_id=CALL_ID,
                origin=Origin.HTTP,
                progress=lambda message, fraction: None,
            ),
            ceiling=PermissionTier.MANUAL_ONLY,
            solicited=True,
            read_sources=(),
            is_manual=True,
        )
        try:
            return ToolPending(action=await self.parking.park(await self.preview.action(call)))
        except ToolCallBlockedError as blocked:
            return results.denial(blocked)
        except Conflict:
            # The same request came twice at once.
            known = await self.actions.of_call(user_id, call.context.turn_id, CALL_ID)
            if known is None:
                raise
            return ToolPending(action=known)
        except (ToolFailed, MinaraError) as failed:
            return ToolFailure(reason=str(failed.reason), message=failed.message)


def _is_manual(entry: ToolEntry) -> bool:
    return entry.permission_tier is PermissionTier.MANUAL_ONLY


def _turn_id(user_id: UserId, request: ManualRequest) -> TurnId:
    """The person's own: what another one asks under the same id is another request."""
    return TurnId(f"manual:{user_id}:{request.request_id}")
