"""Where attacks on the gateway are played: a whole Minara, and between it and the gateway an
orchestrator that changes what it likes in the stream."""

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc.aio

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara_core.clock import SystemClock
from minara_core.ids import PendingActionId, RandomIds
from minara_core.taxonomy import Scope
from minara_gateway import main as gateway_main
from minara_gateway.client import GatewayClient, ProblemError, StreamedEvent
from minara_gateway.main import OWNER
from minara_gateway.peers import Channels
from minara_gateway.serving import bind_unix, serving
from minara_gateway.store import GatewayStore
from minara_llm.model import ModelEvent, ModelRequest
from minara_llm.offline.model import OfflineModel
from minara_llm.scripted import Events
from minara_runtime import telemetry
from minara_runtime.channels import connect_in_process
from minara_runtime.database import Database
from minara_runtime.grants import GrantVerifier
from minara_runtime.inprocess import InProcessServer
from minara_runtime.interceptors import server_interceptors
from minara_runtime.keys import read_public_keys
from minara_tools.domain.action_json import client_order_id
from support.minara import EmbeddedMinara, a_minara, named, settings_for, sqlite_rows

ORDINARY = "an ordinary message"
"""What was typed decided nothing."""
Twist = Callable[[event_pb.TurnEvent], Iterable[event_pb.TurnEvent]]


def untouched(event: event_pb.TurnEvent) -> Iterable[event_pb.TurnEvent]:
    return (event,)


class Puppet:
    """A model that plays what it is given, and is the offline one otherwise."""

    def __init__(self) -> None:
        self._offline = OfflineModel()
        self.scripts: list[Events] = []
        self.provider = self._offline.provider
        self.name = self._offline.name
        self.context_window = self._offline.context_window

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self.scripts:
            for event in self.scripts.pop(0):
                yield event
            return
        async for event in self._offline.stream(request):
            yield event


class Puppeteer(agent_grpc.AgentServiceServicer):
    """Passes a true orchestrator's stream on, after `twist` has made of each event what it
    likes."""

    def __init__(self, true: grpc.aio.Channel) -> None:
        self._true = agent_grpc.AgentServiceStub(true)
        self.twist: Twist = untouched

    async def RunTurn(
        self,
        request: agent_pb.RunTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.RunTurnRequest, agent_pb.RunTurnResponse],
    ) -> AsyncIterator[agent_pb.RunTurnResponse]:
        async for response in self._true.RunTurn(request):
            for event in response.events:
                for twisted in self.twist(event):
                    twisted.sequence = event.sequence
                    yield agent_pb.RunTurnResponse(events=[twisted])

    async def SteerTurn(
        self,
        request: agent_pb.SteerTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.SteerTurnRequest, agent_pb.SteerTurnResponse],
    ) -> agent_pb.SteerTurnResponse:
        return await self._true.SteerTurn(request)

    async def CancelTurn(
        self,
        request: agent_pb.CancelTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.CancelTurnRequest, agent_pb.CancelTurnResponse],
    ) -> agent_pb.CancelTurnResponse:
        return await self._true.CancelTurn(request)

    async def RenderPrompt(
        self,
        request: agent_pb.RenderPromptRequest,
        context: grpc.aio.ServicerContext[
            agent_pb.RenderPromptRequest, agent_pb.RenderPromptResponse
        ],
    ) -> agent_pb.RenderPromptResponse:
        return await self._true.RenderPrompt(request)


@dataclass
class Front:
    """`confirmed` are the actions that a person said yes to, with the preview on their screen."""

    minara: EmbeddedMinara
    model: Puppet
    puppeteer: Puppeteer
    socket: Path
    confirmed: set[str] = field(default_factory=set[str])

    def begin(self) -> None:
        """Another case: a new conversation, and nobody twists anything."""
        self.minara.session_id = self.minara.shown_action_id = ""
        self.puppeteer.twist = untouched
        self.model.scripts = []

    def elsewhere(self) -> None:
        """Go on in a new session."""
        self.minara.session_id = self.minara.shown_action_id = ""

    async def previewed(self, message: str = "buy $50 of ETH") -> dict[str, Any]:
        """The stored action that a message led to, whatever was streamed of it."""
        before = {row["pending_action_id"] for row in self._actions()}
        await self.minara.say(message)
        (new,) = [row for row in self._actions() if row["pending_action_id"] not in before]
        return new

    async def types(self, text: str, **body: Any) -> str:
        """What a typed word decided, if it decided anything."""
        try:
            events = await self.minara.say(text, **body)
        except ProblemError as refused:
            return str(refused.reason)
        decided = named(events, "action_decided")
        return str(decided[0]["action"]["state"]) if decided else ORDINARY

    async def posts(self, path: str, body: dict[str, Any], **headers: str) -> str:
        """The reason that a raw request is refused with, or the state it answers with."""
        async with self.minara.http(**headers) as http:
            response = await http.post(path, json=body)
        told = response.json()
        return str(told.get("reason") or told.get("state"))

    def expire(self, action_id: str) -> None:
        """Let the time of an action be over."""
        with closing(sqlite3.connect(self.minara.data_dir / "tools.db")) as database:
            database.execute(
                "UPDATE pending_actions SET expire_time = create_time WHERE pending_action_id = ?",
                (action_id,),
            )
            database.commit()

    async def token(self, name: str, *scopes: Scope, is_interactive: bool = True) -> str:
        """A token of the same person with these scopes."""
        path = self.minara.data_dir / "gateway.db"
        store = GatewayStore(Database.open(f"sqlite:///{path}"), SystemClock())
        caller = replace(OWNER, scopes=frozenset(scopes), is_interactive=is_interactive)
        await store.add_token(name, caller, name=name)
        await store.aclose()
        return name

    @asynccontextmanager
    async def as_caller(self, token: str) -> AsyncGenerator[None]:
        """Speak with another token for a while."""
        own, self.minara.client = self.minara.client, GatewayClient.over_socket(self.socket, token)
        try:
            yield
        finally:
            await self.minara.client.aclose()
            self.minara.client = own

    def unconfirmed_orders(self) -> set[str]:
        """Orders at the venue that no person confirmed."""
        rows = sqlite_rows(
            self.minara.data_dir, "paper", "SELECT client_order_id FROM paper_orders"
        )
        sent = {str(row["client_order_id"]) for row in rows}
        return sent - {client_order_id(PendingActionId(action)) for action in self.confirmed}

    def _actions(self) -> list[dict[str, Any]]:
        return sqlite_rows(
            self.minara.data_dir,
            "tools",
            "SELECT pending_action_id, action_hash, solicited FROM pending_actions",
        )


Play = Callable[[Front], Awaitable[str]]


def shown_in(events: list[StreamedEvent]) -> list[dict[str, Any]]:
    """The previews that were delivered."""
    return named(events, "approval_requested")


@asynccontextmanager
async def a_front(data_dir: Path) -> AsyncGenerator[Front]:
    """A whole Minara behind a puppeteer."""
    model = Puppet()
    async with a_minara(data_dir, model=model) as minara, AsyncExitStack() as stack:
        verifier = GrantVerifier(read_public_keys(data_dir / "keys"), SystemClock())
        server = InProcessServer(server_interceptors(verifier, telemetry.disabled()))
        puppeteer = Puppeteer(minara.engine.orchestrator)
        agent_grpc.add_AgentServiceServicer_to_server(puppeteer, server)
        await server.start()
        stack.push_async_callback(server.stop, None)
        gateway = gateway_main.build(
            settings_for(data_dir).gateway,
            Channels(
                orchestrator=connect_in_process(server, peer="orchestrator"),
                workspace=minara.engine.workspace,
                tools=minara.engine.tools,
            ),
            clock=SystemClock(),
            ids=RandomIds(),
        )
        stack.push_async_callback(gateway.aclose)
        socket = data_dir / "front.sock"
        await stack.enter_async_context(serving(gateway.app, bind_unix(socket)))
        true = minara.client
        minara.client = GatewayClient.over_socket(socket, gateway.token)
        try:
            yield Front(minara=minara, model=model, puppeteer=puppeteer, socket=socket)
        finally:
            await minara.client.aclose()
            minara.client = true
