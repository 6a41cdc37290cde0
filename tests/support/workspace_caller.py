"""A caller of the workspace service: both stubs, and the grants that its calls need."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc.aio

from minara.agent.v1 import event_pb2 as event_pb
from minara.type.v1 import turn_context_pb2 as turn_pb
from minara.workspace.v1 import context_service_pb2 as context_pb
from minara.workspace.v1 import context_service_pb2_grpc as context_grpc
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.messages import Message
from minara_core.taxonomy import Origin, PermissionTier, Scope
from minara_runtime import telemetry
from minara_runtime.channels import with_grant
from minara_runtime.convert import message_to_pb
from minara_runtime.convert_enums import ORIGIN
from minara_runtime.interceptors import server_interceptors
from minara_runtime.service import running
from minara_workspace.main import build
from minara_workspace.settings import WorkspaceSettings
from support.channels import a_channel
from support.grants import Installation
from support.ids import SequentialIds

SESSION = "00000000-0000-7000-8000-000000000001"


@dataclass(frozen=True)
class Caller:
    """Both stubs, and grants for whoever calls."""

    installation: Installation
    contexts: "context_grpc.ContextServiceAsyncStub"
    sessions: "session_grpc.SessionServiceAsyncStub"

    def grant(self, *, user_id: str = "local") -> Any:
        token = self.installation.gateway.request(user_id=user_id, scopes=list(Scope))
        return with_grant(token)

    def turn(
        self, turn_id: str = "turn-1", message: str = "price of BTC", user_id: str = "local"
    ) -> turn_pb.TurnContext:
        token = self.installation.gateway.turn(
            user_id=user_id,
            session_id=SESSION,
            turn_id=turn_id,
            origin=Origin.HTTP,
            tool_sets=("read",),
            ceiling=PermissionTier.ALWAYS_CONFIRM,
            message=message,
        )
        return turn_pb.TurnContext(
            user_id=user_id,
            session_id=SESSION,
            turn_id=turn_id,
            origin=ORIGIN.to_pb(Origin.HTTP),
            allowed_tool_sets=("read",),
            session_epoch=1,
            grant=token,
        )

    async def create(self, *, user_id: str = "local", title: str = "") -> session_pb.Session:
        request = session_pb.CreateSessionRequest(request_id=SESSION, title=title)
        response = await self.sessions.CreateSession(request, metadata=self.grant(user_id=user_id))
        return response.session

    async def prepare(self, turn_id: str = "turn-1") -> context_pb.PrepareTurnResponse:
        return await self.contexts.PrepareTurn(
            context_pb.PrepareTurnRequest(context=self.turn(turn_id), message="price of BTC")
        )

    async def commit(
        self, turn_id: str, messages: list[Message], *, token: str = "", **changes: Any
    ) -> context_pb.CommitTurnResponse:
        request = context_pb.CommitTurnRequest(
            context=self.turn(turn_id),
            state=context_pb.TURN_STATE_COMPLETED,
            message="price of BTC",
            messages=[message_to_pb(message) for message in messages],
            usage=event_pb.Usage(input_tokens=10, output_tokens=5),
            finish_reason=event_pb.FINISH_REASON_STOP,
            commit_token=token,
        )
        request.MergeFrom(context_pb.CommitTurnRequest(**changes))
        return await self.contexts.CommitTurn(request)


async def a_caller(
    stack: AsyncExitStack, installation: Installation, settings: WorkspaceSettings, kind: str
) -> Caller:
    """A workspace service that is up while `stack` is, and its caller over a `kind` of channel."""
    service = build(settings, clock=installation.clock, ids=SequentialIds("draft"))

    def register(server: grpc.aio.Server) -> None:
        for servicer in service.servicers:
            servicer.register(server)

    await stack.enter_async_context(running(service))
    interceptors = server_interceptors(installation.verifier, telemetry.disabled())
    channel = await stack.enter_async_context(a_channel(kind, register, interceptors))
    return Caller(
        installation=installation,
        contexts=context_grpc.ContextServiceStub(channel),
        sessions=session_grpc.SessionServiceStub(channel),
    )
