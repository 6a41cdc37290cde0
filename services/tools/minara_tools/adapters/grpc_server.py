"""ToolService: convert in, call, convert out."""

from collections.abc import AsyncIterator, Sequence

import grpc.aio

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara.type.v1 import permission_pb2 as permission_pb
from minara.type.v1 import taxonomy_pb2 as taxonomy_pb
from minara_core.errors import InvalidRequest
from minara_core.grant import GrantType
from minara_core.ids import TurnId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import LifecycleStage, PermissionTier
from minara_core.tooling import ToolCall
from minara_runtime import convert_enums as enums
from minara_runtime.call_context import current_grant
from minara_runtime.convert import (
    call_from_pb,
    context_from_pb,
    definition_to_pb,
    result_to_pb,
)
from minara_runtime.convert_actions import action_to_pb
from minara_tools.app.execute_tools import Batch, CallProgressed, CallUpdate, ToolDispatcher
from minara_tools.app.open_turn import TurnOpening
from minara_tools.domain.call_paths import is_call_path
from minara_tools.domain.catalog import catalog_of, listed_sets, unavailable_tools
from minara_tools.domain.ledger import Selection
from minara_tools.domain.registry import ToolRegistry

MAX_CALLS = 64


class ToolServicer(tools_grpc.ToolServiceServicer):
    def __init__(
        self, registry: ToolRegistry, opening: TurnOpening, dispatcher: ToolDispatcher
    ) -> None:
        self._registry = registry
        self._opening = opening
        self._dispatcher = dispatcher
        self._catalog = catalog_of(registry)

    async def ListTools(
        self,
        request: tools_pb.ListToolsRequest,
        context: grpc.aio.ServicerContext[tools_pb.ListToolsRequest, tools_pb.ListToolsResponse],
    ) -> tools_pb.ListToolsResponse:
        return tools_pb.ListToolsResponse(
            definitions=[definition_to_pb(one) for one in self._catalog.definitions],
            etag=self._catalog.etag,
            unavailable_tools=self._unavailable(),
            tool_sets=[
                tools_pb.ToolSet(
                    name=one.name, includes=one.includes, empty_reason=one.empty_reason
                )
                for one in listed_sets(self._registry)
            ],
        )

    async def OpenTurn(
        self,
        request: tools_pb.OpenTurnRequest,
        context: grpc.aio.ServicerContext[tools_pb.OpenTurnRequest, tools_pb.OpenTurnResponse],
    ) -> tools_pb.OpenTurnResponse:
        opened = await self._opening.open(
            current_grant(),
            context_from_pb(request.context),
            message=request.message,
            decided_action_id=request.decided_action_id,
            validate_only=request.validate_only,
            into_turn_id=TurnId(request.into_turn_id),
        )
        standing = opened.standing
        return tools_pb.OpenTurnResponse(
            trading_state=enums.TRADING_STATE.to_pb(standing.trading.state),
            pending_actions=[action_to_pb(one) for one in standing.pending_actions],
            untold_outcomes=[action_to_pb(one) for one in standing.untold_outcomes],
            catalog_etag=self._catalog.etag,
            unavailable_tools=self._unavailable(),
            ceiling=enums.TIER.to_pb(opened.ceiling),
        )

    async def CloseTurn(
        self,
        request: tools_pb.CloseTurnRequest,
        context: grpc.aio.ServicerContext[tools_pb.CloseTurnRequest, tools_pb.CloseTurnResponse],
    ) -> tools_pb.CloseTurnResponse:
        await self._opening.close(
            current_grant(),
            context_from_pb(request.context),
            is_completed=request.is_completed,
        )
        return tools_pb.CloseTurnResponse()

    async def ExecuteTools(
        self,
        request: tools_pb.ExecuteToolsRequest,
        context: grpc.aio.ServicerContext[
            tools_pb.ExecuteToolsRequest, tools_pb.ExecuteToolsResponse
        ],
    ) -> AsyncIterator[tools_pb.ExecuteToolsResponse]:
        updates = self._dispatcher.execute(await self._batch(request))
        try:
            async for update in updates:
                yield self._response(update)
        finally:
            await updates.aclose()

    async def _batch(self, request: tools_pb.ExecuteToolsRequest) -> Batch:
        calls = _calls(request)
        grant = current_grant()
        if grant.grant_type is GrantType.REQUEST:
            if len(calls) != 1:
                raise _invalid("outside a turn one tool is called at a time", "calls")
            return await self._opening.single_read(grant, calls[0])
        return await self._opening.batch(
            grant, context_from_pb(request.context), calls, _selection(request)
        )

    def _response(self, update: CallUpdate) -> tools_pb.ExecuteToolsResponse:
        if isinstance(update, CallProgressed):
            progress = tools_pb.ToolProgress(
                tool_call_id=update.tool_call_id,
                message=update.message,
                fraction=update.fraction,
            )
            return tools_pb.ExecuteToolsResponse(progress=progress)
        return tools_pb.ExecuteToolsResponse(
            result=result_to_pb(update.result),
            duration_ms=update.duration_ms,
            catalog_etag=self._catalog.etag,
        )

    def _unavailable(self) -> list[tools_pb.UnavailableTool]:
        return [
            tools_pb.UnavailableTool(name=tool.name, needs=tool.needs)
            for tool in unavailable_tools(self._registry)
        ]


def _calls(request: tools_pb.ExecuteToolsRequest) -> Sequence[ToolCall]:
    calls = [call_from_pb(call) for call in request.calls]
    ids = {call.tool_call_id for call in calls}
    if not calls or len(calls) > MAX_CALLS:
        raise _invalid(f"a batch has 1 to {MAX_CALLS} calls", "calls")
    if len(ids) != len(calls):
        raise _invalid("every call of a batch has an id of its own", "calls.tool_call_id")
    if not all(is_call_path(one) for one in ids):
        raise _invalid("a call is <step>.<index>, or a path of them", "calls.tool_call_id")
    return calls


def _selection(request: tools_pb.ExecuteToolsRequest) -> Selection:
    """What is not stated counts as the least: stage `evaluate`, READ_ONLY."""
    return Selection(
        stage=None
        if request.stage == taxonomy_pb.LIFECYCLE_STAGE_UNSPECIFIED
        else enums.STAGE.from_pb_or(request.stage, LifecycleStage.DISCOVER),
        callable_tools=frozenset(request.callable_tools),
        risk_ceiling=None
        if request.risk_ceiling == permission_pb.PERMISSION_TIER_UNSPECIFIED
        else enums.TIER.from_pb_or(request.risk_ceiling, PermissionTier.READ_ONLY),
    )


def _invalid(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(message, reason=ErrorReason.REQUEST_INVALID, metadata={"field": field})
