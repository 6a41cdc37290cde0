"""A typed word decides only when everything holds; each condition alone is enough to refuse."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

import grpc.aio
import pytest

from minara.agent.v1 import event_pb2 as event_pb
from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.actions import ActionState, Decision, PendingAction
from minara_core.clock import SystemClock
from minara_core.errors import NotFound
from minara_core.ids import RandomIds, TurnId
from minara_core.taxonomy import Scope
from minara_gateway.confirmation import Confirmations
from minara_gateway.main import OWNER
from minara_gateway.peers import Channels, GrantDesk, Peers
from minara_gateway.store import VERSIONS, Caller, GatewayStore
from minara_runtime import telemetry
from minara_runtime.channels import connect_in_process
from minara_runtime.convert_actions import action_to_pb
from minara_runtime.grants import GrantSigner, GrantVerifier
from minara_runtime.inprocess import InProcessServer
from minara_runtime.interceptors import server_interceptors
from minara_runtime.keys import PublicKeys, confirmation_key, gateway_key, generate
from support.actions import an_action
from support.databases import Databases


@dataclass
class World:
    """What the three peers say; by default everything holds."""

    open_actions: list[PendingAction] = field(default_factory=lambda: [an_action()])
    latest_turn_id: str = "turn-1"
    finish_reason: event_pb.FinishReason.ValueType = event_pb.FINISH_REASON_APPROVAL_REQUESTED
    is_running: bool = False


class Approvals(approval_grpc.ApprovalServiceServicer):
    def __init__(self, world: World) -> None:
        self._world = world

    async def ListPendingActions(
        self,
        request: approval_pb.ListPendingActionsRequest,
        context: grpc.aio.ServicerContext[
            approval_pb.ListPendingActionsRequest, approval_pb.ListPendingActionsResponse
        ],
    ) -> approval_pb.ListPendingActionsResponse:
        return approval_pb.ListPendingActionsResponse(
            pending_actions=[action_to_pb(action) for action in self._world.open_actions]
        )


class Sessions(session_grpc.SessionServiceServicer):
    def __init__(self, world: World) -> None:
        self._world = world

    async def GetSession(
        self,
        request: session_pb.GetSessionRequest,
        context: grpc.aio.ServicerContext[
            session_pb.GetSessionRequest, session_pb.GetSessionResponse
        ],
    ) -> session_pb.GetSessionResponse:
        return session_pb.GetSessionResponse(
            session=session_pb.Session(
                session_id=request.session_id,
                latest_turn_id=self._world.latest_turn_id,
                latest_finish_reason=self._world.finish_reason,
            )
        )


class Agent(agent_grpc.AgentServiceServicer):
    def __init__(self, world: World) -> None:
        self._world = world

    async def RunTurn(
        self,
        request: agent_pb.RunTurnRequest,
        context: grpc.aio.ServicerContext[agent_pb.RunTurnRequest, agent_pb.RunTurnResponse],
    ) -> AsyncGenerator[agent_pb.RunTurnResponse]:
        if not self._world.is_running:
            raise NotFound("no turn runs in this session")
        yield agent_pb.RunTurnResponse(events=[event_pb.TurnEvent(sequence=1)])


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def store(sqlite_databases: Databases) -> GatewayStore:
    return GatewayStore(await sqlite_databases.open(VERSIONS), SystemClock())


@pytest.fixture
async def confirmations(world: World, store: GatewayStore) -> AsyncGenerator[Confirmations]:
    clock, ids = SystemClock(), RandomIds()
    gateway, confirming = generate("gateway"), generate("gateway-confirmation")
    keys = PublicKeys((gateway_key(gateway), confirmation_key(confirming)))
    server = InProcessServer(server_interceptors(GrantVerifier(keys, clock), telemetry.disabled()))
    approval_grpc.add_ApprovalServiceServicer_to_server(_whole(Approvals)(world), server)
    session_grpc.add_SessionServiceServicer_to_server(_whole(Sessions)(world), server)
    agent_grpc.add_AgentServiceServicer_to_server(_whole(Agent)(world), server)
    await server.start()
    channel = connect_in_process(server, peer="everybody")
    await store.record_shown(an_action(), is_last_word=True)
    yield Confirmations(
        Peers(Channels(orchestrator=channel, workspace=channel, tools=channel)),
        GrantDesk(GrantSigner(gateway, clock, ids), GrantSigner(confirming, clock, ids), clock),
        store,
        b"code key",
    )
    await server.stop(None)


def _whole(kind: type) -> type:
    """The servicer with every method it leaves out answering as unimplemented."""
    return type(kind.__name__, (kind,), {"__abstractmethods__": frozenset()})


async def decision(
    confirmations: Confirmations,
    *,
    text: str = "yes",
    caller: Caller = OWNER,
    session_id: str = "session-1",
    shown: str = "action-1",
) -> Decision | None:
    typed = await confirmations.typed(
        caller, text=text, session_id=session_id, shown_action_id=shown
    )
    return None if typed is None else typed.decision


@pytest.mark.parametrize("text", ["yes", " Yes. ", "confirm", "確認", "네", "ＹＥＳ"])
async def test_a_listed_word_confirms_when_everything_holds(
    confirmations: Confirmations, text: str
) -> None:
    assert await decision(confirmations, text=text) is Decision.CONFIRM


@pytest.mark.parametrize("text", ["no", "cancel", "取消", "아니요"])
async def test_a_listed_refusal_rejects_under_the_same_conditions(
    confirmations: Confirmations, text: str
) -> None:
    assert await decision(confirmations, text=text) is Decision.REJECT


@pytest.mark.parametrize("text", ["yes but 50", "yes, and sell BTC", "ok", "sure", "", "是不是"])
async def test_any_other_message_decides_nothing(confirmations: Confirmations, text: str) -> None:
    assert await decision(confirmations, text=text) is None


async def test_a_program_decides_nothing_by_words(confirmations: Confirmations) -> None:
    assert await decision(confirmations, caller=replace(OWNER, is_interactive=False)) is None


async def test_words_need_the_scope_to_confirm(confirmations: Confirmations) -> None:
    chatter = replace(OWNER, scopes=frozenset(Scope) - {Scope.CONFIRM})
    assert await decision(confirmations, caller=chatter) is None


@pytest.mark.parametrize(("session_id", "shown"), [("", "action-1"), ("session-1", "")])
async def test_words_need_the_preview_on_screen(
    confirmations: Confirmations, session_id: str, shown: str
) -> None:
    assert await decision(confirmations, session_id=session_id, shown=shown) is None


async def test_another_preview_on_screen_decides_nothing(confirmations: Confirmations) -> None:
    assert await decision(confirmations, shown="action-2") is None


async def test_two_open_actions_decide_nothing(confirmations: Confirmations, world: World) -> None:
    world.open_actions.append(an_action("action-2"))
    assert await decision(confirmations) is None


@pytest.mark.parametrize(
    "change",
    [
        {"solicited": False},
        {"possible_duplicate": True},
        {"state": ActionState.EXECUTING},
        {"action_hash": "cd" * 32},
    ],
)
async def test_an_action_of_the_wrong_kind_is_not_decided(
    confirmations: Confirmations, world: World, change: dict[str, object]
) -> None:
    world.open_actions = [replace(an_action(), **change)]
    assert await decision(confirmations) is None


async def test_a_later_turn_makes_the_word_an_ordinary_one(
    confirmations: Confirmations, world: World
) -> None:
    world.latest_turn_id = "turn-2"
    assert await decision(confirmations) is None


async def test_something_delivered_after_the_preview_takes_the_word_from_it(
    confirmations: Confirmations, store: GatewayStore
) -> None:
    await store.take_back_last_word(an_action())
    assert await decision(confirmations) is None


async def test_a_preview_that_was_only_listed_answers_to_no_word(
    confirmations: Confirmations, store: GatewayStore, world: World
) -> None:
    world.open_actions = [an_action("action-2")]
    await store.record_shown(an_action("action-2"), is_last_word=False)
    assert await decision(confirmations, shown="action-2") is None


async def test_an_action_of_another_turn_than_the_sessions_latest_is_not_decided(
    confirmations: Confirmations, world: World
) -> None:
    world.open_actions = [replace(an_action(), turn_id=TurnId("turn-0"))]
    assert await decision(confirmations) is None


@pytest.mark.parametrize("text", ["yes", "no"])
async def test_everything_at_once_decides_nothing_either_way(
    confirmations: Confirmations, world: World, text: str
) -> None:
    world.is_running = True
    world.open_actions = [replace(an_action(), solicited=False, possible_duplicate=True)]
    assert await decision(confirmations, text=text) is None


async def test_an_open_question_takes_the_word(confirmations: Confirmations, world: World) -> None:
    world.finish_reason = event_pb.FINISH_REASON_QUESTION
    assert await decision(confirmations) is None


async def test_nothing_is_decided_by_words_while_a_turn_runs(
    confirmations: Confirmations, world: World
) -> None:
    world.is_running = True
    assert await decision(confirmations) is None
