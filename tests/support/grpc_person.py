"""A person's turns as an internal gRPC client sees them, signed with the gateway's own key."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc.aio

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara.type.v1 import turn_context_pb2 as context_pb
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.clock import SystemClock
from minara_core.ids import RandomIds
from minara_core.taxonomy import TOOL_SETS, Origin, PermissionTier, Scope
from minara_runtime.channels import with_grant
from minara_runtime.convert_enums import ORIGIN
from minara_runtime.data_folder import DataFolder
from minara_runtime.grants import GrantSigner
from minara_runtime.hosting import installation_keys


@dataclass
class GrpcPerson:
    """Speaks to the services of one installation. `run` keeps no stream open longer than asked."""

    user_id: str
    signer: GrantSigner
    orchestrator: grpc.aio.Channel
    workspace: grpc.aio.Channel
    session_id: str = ""
    _ids: RandomIds = field(default_factory=RandomIds)

    @classmethod
    def of(
        cls,
        data_dir: Path,
        user_id: str,
        orchestrator: grpc.aio.Channel,
        workspace: grpc.aio.Channel,
    ) -> "GrpcPerson":
        key = installation_keys(DataFolder(data_dir), "gateway")
        signer = GrantSigner(key, SystemClock(), RandomIds())
        return cls(user_id, signer, orchestrator, workspace)

    @property
    def agent(self) -> "agent_grpc.AgentServiceAsyncStub":
        return cast("Any", agent_grpc.AgentServiceStub(self.orchestrator))

    async def begin(self) -> str:
        """A new session, which is this person's from now on."""
        stub = session_grpc.SessionServiceStub(self.workspace)
        response = await stub.CreateSession(
            session_pb.CreateSessionRequest(request_id=self._ids.new()),
            metadata=with_grant(self.signer.request(user_id=self.user_id, scopes=[Scope.CHAT])),
        )
        self.session_id = response.session.session_id
        return self.session_id

    def context(
        self, text: str | None, *, turn_id: str = "", origin: Origin = Origin.HTTP
    ) -> context_pb.TurnContext:
        """Of a turn, or a message, with these words."""
        turn_id = turn_id or self._ids.new()
        grant = self.signer.turn(
            user_id=self.user_id,
            session_id=self.session_id,
            turn_id=turn_id,
            origin=origin,
            tool_sets=TOOL_SETS,
            ceiling=PermissionTier.ALWAYS_CONFIRM,
            message=text,
        )
        return context_pb.TurnContext(
            turn_id=turn_id,
            session_id=self.session_id,
            user_id=self.user_id,
            origin=ORIGIN.to_pb(origin),
            allowed_tool_sets=TOOL_SETS,
            grant=grant,
        )

    def watcher(self, turn_id: str = "") -> context_pb.TurnContext:
        """A context that can only watch and stop."""
        return context_pb.TurnContext(
            turn_id=turn_id,
            session_id=self.session_id,
            user_id=self.user_id,
            origin=ORIGIN.to_pb(Origin.HTTP),
            grant=self.signer.request(user_id=self.user_id, scopes=[Scope.CHAT]),
        )

    def request(self, text: str, *, turn_id: str = "", **options: Any) -> agent_pb.RunTurnRequest:
        """What starts a turn with these words."""
        context = self.context(text, turn_id=turn_id)
        return agent_pb.RunTurnRequest(
            context=context, user_message=agent_pb.UserMessage(text=text), **options
        )

    def attaching(self, turn_id: str, after: int = 0) -> agent_pb.RunTurnRequest:
        """What only watches a turn."""
        return agent_pb.RunTurnRequest(
            context=self.watcher(turn_id), attach=agent_pb.Attach(), after_sequence=after
        )

    async def steer(
        self, text: str, turn_id: str = "", *, message_id: str = "", origin: Origin = Origin.HTTP
    ) -> str:
        """Put these words into a turn; the turn that has them."""
        context = self.context(text, turn_id=message_id, origin=origin)
        request = agent_pb.SteerTurnRequest(context=context, turn_id=turn_id, text=text)
        return (await self.agent.SteerTurn(request)).turn_id

    async def cancel(self, turn_id: str = "") -> agent_pb.CancelTurnResponse:
        """Ask a turn to stop, by default the session's live one."""
        request = agent_pb.CancelTurnRequest(context=self.watcher(turn_id))
        return await self.agent.CancelTurn(request)

    async def run(self, request: agent_pb.RunTurnRequest) -> AsyncGenerator[event_pb.TurnEvent]:
        """The turn's events; who stops reading leaves the stream."""
        call = self.agent.RunTurn(request)
        try:
            async for response in call:
                for event in response.events:
                    yield event
        finally:
            call.cancel()

    async def events(self, request: agent_pb.RunTurnRequest) -> list[event_pb.TurnEvent]:
        """All of them, to the end."""
        return [event async for event in self.run(request)]

    async def first(self, request: agent_pb.RunTurnRequest, name: str) -> event_pb.TurnEvent:
        """The first event of this name; the stream is left with it."""
        async with aclosing(self.run(request)) as events:
            async for event in events:
                if event.WhichOneof("event") == name:
                    return event
        raise AssertionError(f"no {name} came")
