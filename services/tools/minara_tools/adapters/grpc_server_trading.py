"""TradingControlService: convert in, call, convert out."""

import grpc.aio

from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara.tools.v1 import trading_control_service_pb2_grpc as control_grpc
from minara_core.errors import NotPermitted
from minara_core.grant import GrantType
from minara_core.ids import UserId
from minara_core.reasons import ErrorReason
from minara_runtime import convert_enums as enums
from minara_runtime.call_context import current_grant
from minara_runtime.convert import result_to_pb
from minara_runtime.convert_actions import action_to_pb, time_to_pb
from minara_tools.app.ledger_control import LedgerControl
from minara_tools.app.manual_actions import ManualActions, ManualRequest
from minara_tools.app.trading_control import TradingControl
from minara_tools.domain.trading import TradingStanding


class TradingControlServicer(control_grpc.TradingControlServiceServicer):
    def __init__(
        self, control: TradingControl, manual: ManualActions, ledger: LedgerControl
    ) -> None:
        self._control = control
        self._manual = manual
        self._ledger = ledger

    async def GetTradingState(
        self,
        request: control_pb.GetTradingStateRequest,
        context: grpc.aio.ServicerContext[
            control_pb.GetTradingStateRequest, control_pb.GetTradingStateResponse
        ],
    ) -> control_pb.GetTradingStateResponse:
        standing = await self._control.current(_person())
        return control_pb.GetTradingStateResponse(trading_state=_standing_to_pb(standing))

    async def HaltTrading(
        self,
        request: control_pb.HaltTradingRequest,
        context: grpc.aio.ServicerContext[
            control_pb.HaltTradingRequest, control_pb.HaltTradingResponse
        ],
    ) -> control_pb.HaltTradingResponse:
        halted = await self._control.halt(
            _person(),
            request.reason[:500].replace("\0", ""),
            cancel_protection=request.cancel_protection,
            close_positions=request.close_positions,
        )
        return control_pb.HaltTradingResponse(
            trading_state=_standing_to_pb(halted.standing),
            rejected_action_ids=halted.rejected,
            unsettled_action_ids=[one.operation_id for one in halted.unsettled],
            closing_action_ids=[one.pending_action_id for one in halted.closing],
            closing_problem=halted.problem,
        )

    async def ResumeTrading(
        self,
        request: control_pb.ResumeTradingRequest,
        context: grpc.aio.ServicerContext[
            control_pb.ResumeTradingRequest, control_pb.ResumeTradingResponse
        ],
    ) -> control_pb.ResumeTradingResponse:
        standing = await self._control.resume(current_grant(), request.etag)
        return control_pb.ResumeTradingResponse(trading_state=_standing_to_pb(standing))

    async def RunManualAction(
        self,
        request: control_pb.RunManualActionRequest,
        context: grpc.aio.ServicerContext[
            control_pb.RunManualActionRequest, control_pb.RunManualActionResponse
        ],
    ) -> control_pb.RunManualActionResponse:
        asked = ManualRequest(
            tool_name=request.tool_name,
            arguments_json=request.arguments_json,
            request_id=request.request_id,
        )
        result = await self._manual.run(_person(), asked)
        return control_pb.RunManualActionResponse(result=result_to_pb(result))

    async def ResolveOperation(
        self,
        request: control_pb.ResolveOperationRequest,
        context: grpc.aio.ServicerContext[
            control_pb.ResolveOperationRequest, control_pb.ResolveOperationResponse
        ],
    ) -> control_pb.ResolveOperationResponse:
        action = await self._ledger.resolve(
            _person(),
            request.operation_id,
            was_executed=request.was_executed,
            evidence=request.evidence[:2_000].replace("\0", ""),
        )
        return control_pb.ResolveOperationResponse(pending_action=action_to_pb(action))

    async def AdoptBooks(
        self,
        request: control_pb.AdoptBooksRequest,
        context: grpc.aio.ServicerContext[
            control_pb.AdoptBooksRequest, control_pb.AdoptBooksResponse
        ],
    ) -> control_pb.AdoptBooksResponse:
        await self._ledger.adopt()
        standing = await self._control.current(_person())
        return control_pb.AdoptBooksResponse(trading_state=_standing_to_pb(standing))


def _person() -> UserId:
    grant = current_grant()
    if grant.grant_type is GrantType.SERVICE:
        raise NotPermitted("a service's grant names no person", reason=ErrorReason.SCOPE_MISSING)
    return UserId(grant.subject)


def _standing_to_pb(standing: TradingStanding) -> control_pb.TradingStateRecord:
    return control_pb.TradingStateRecord(
        state=enums.TRADING_STATE.to_pb(standing.state),
        reason=standing.reason,
        update_time=time_to_pb(standing.update_time) if standing.update_time else None,
        etag=standing.etag,
        is_installation_wide=standing.is_installation_wide,
    )
