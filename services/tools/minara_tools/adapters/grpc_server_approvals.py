"""ApprovalService: convert in, call, convert out."""

import base64
import binascii

import grpc.aio

from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara_core.errors import InvalidRequest
from minara_core.ids import PendingActionId, UserId
from minara_runtime.call_context import current_grant
from minara_runtime.convert import result_to_pb
from minara_runtime.convert_actions import action_to_pb
from minara_tools.app.confirm_action import ActionDecisions, DecisionRequest
from minara_tools.app.stores import ActionStore
from minara_tools.domain import results

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200


class ApprovalServicer(approval_grpc.ApprovalServiceServicer):
    def __init__(self, actions: ActionStore, decisions: ActionDecisions) -> None:
        self._actions = actions
        self._decisions = decisions

    async def ListPendingActions(
        self,
        request: approval_pb.ListPendingActionsRequest,
        context: grpc.aio.ServicerContext[
            approval_pb.ListPendingActionsRequest, approval_pb.ListPendingActionsResponse
        ],
    ) -> approval_pb.ListPendingActionsResponse:
        page = await self._actions.page(
            UserId(current_grant().subject),
            session_id=request.session_id,
            include_decided=request.include_decided,
            before=_position(request.page_token),
            size=_page_size(request.page_size),
        )
        return approval_pb.ListPendingActionsResponse(
            pending_actions=[action_to_pb(action) for action in page.actions],
            next_page_token=_token(page.next_position),
        )

    async def GetPendingAction(
        self,
        request: approval_pb.GetPendingActionRequest,
        context: grpc.aio.ServicerContext[
            approval_pb.GetPendingActionRequest, approval_pb.GetPendingActionResponse
        ],
    ) -> approval_pb.GetPendingActionResponse:
        action = await self._actions.find(
            PendingActionId(request.pending_action_id), UserId(current_grant().subject)
        )
        return approval_pb.GetPendingActionResponse(pending_action=action_to_pb(action))

    async def ConfirmAction(
        self,
        request: approval_pb.ConfirmActionRequest,
        context: grpc.aio.ServicerContext[
            approval_pb.ConfirmActionRequest, approval_pb.ConfirmActionResponse
        ],
    ) -> approval_pb.ConfirmActionResponse:
        action = await self._decisions.confirm(current_grant(), _decision(request))
        return approval_pb.ConfirmActionResponse(
            result=result_to_pb(results.decided(action)), pending_action=action_to_pb(action)
        )

    async def RejectAction(
        self,
        request: approval_pb.RejectActionRequest,
        context: grpc.aio.ServicerContext[
            approval_pb.RejectActionRequest, approval_pb.RejectActionResponse
        ],
    ) -> approval_pb.RejectActionResponse:
        action = await self._decisions.reject(current_grant(), _decision(request))
        return approval_pb.RejectActionResponse(pending_action=action_to_pb(action))


def _decision(
    request: approval_pb.ConfirmActionRequest | approval_pb.RejectActionRequest,
) -> DecisionRequest:
    return DecisionRequest(
        pending_action_id=PendingActionId(request.pending_action_id),
        action_hash=request.action_hash,
    )


def _page_size(asked: int) -> int:
    if asked < 0 or asked > MAX_PAGE_SIZE:
        raise InvalidRequest(
            f"a page has 1 to {MAX_PAGE_SIZE} actions", metadata={"field": "page_size"}
        )
    return asked or DEFAULT_PAGE_SIZE


def _token(position: int) -> str:
    if not position:
        return ""
    return base64.urlsafe_b64encode(str(position).encode()).decode("ascii")


def _position(token: str) -> int:
    try:
        position = int(base64.urlsafe_b64decode(token.encode())) if token else 0
    except (binascii.Error, ValueError):
        position = -1
    if position < 0 or position > 2**62:
        raise InvalidRequest("no such page", metadata={"field": "page_token"})
    return position
