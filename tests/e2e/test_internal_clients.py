"""gRPC callers: none without a grant of the right type; a trusted one that can never confirm."""

from collections.abc import AsyncGenerator
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio

from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara.tools.v1 import approval_service_pb2 as approval_pb
from minara.tools.v1 import approval_service_pb2_grpc as approval_grpc
from minara.type.v1 import turn_context_pb2 as context_pb
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.clock import SystemClock
from minara_core.errors import NotAuthenticated, NotFound
from minara_core.ids import RandomIds
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, PermissionTier, Scope
from minara_runtime.channels import with_grant
from minara_runtime.convert_enums import ORIGIN
from minara_runtime.grants import GrantSigner
from minara_runtime.keys import KeyPair, generate
from support.deployments import Deployments, persons_of
from support.methods import Method, every_method
from support.minara import Minara

SETS = ("read", "trade")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def minara(
    deployment: str, deployments: Deployments, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Minara]:
    async with persons_of(deployment, deployments, tmp_path_factory.mktemp("clients")) as factory:
        yield await factory()


def channels_of(minara: Minara, method: Method) -> list[grpc.aio.Channel]:
    """To every service that answers the method: several keep an audit."""
    package = method.path.split(".")[1]
    services = ("tools", "workspace") if package == "audit" else (package,)
    return [minara.channel(service) for service in services]


@pytest.mark.parametrize("method", every_method(), ids=lambda method: method.path)
@pytest.mark.parametrize("token", ["", "not.a.token"])
async def test_every_method_of_every_service_wants_a_grant(
    minara: Minara, method: Method, token: str
) -> None:
    for channel in channels_of(minara, method):
        with pytest.raises(NotAuthenticated):
            await call(channel, method, minara.user_id, token)


async def call(channel: grpc.aio.Channel, method: Method, user_id: str, token: str) -> None:
    request = method.request(context_pb.TurnContext(user_id=user_id, grant=token))
    codec: Any = (method.request_class.SerializeToString, method.response_class.FromString)
    metadata = with_grant(token) if token else ()
    if method.server_streaming:
        stream: Any = channel.unary_stream(method.path, *codec)(request, metadata=metadata)
        await anext(stream)
    else:
        await channel.unary_unary(method.path, *codec)(request, metadata=metadata)


async def run_turn(
    minara: Minara, signer: GrantSigner, text: str, session_id: str
) -> list[agent_pb.RunTurnResponse]:
    turn_id = RandomIds().new()
    grant = signer.turn(
        user_id=minara.user_id,
        session_id=session_id,
        turn_id=turn_id,
        origin=Origin.HTTP,
        tool_sets=SETS,
        ceiling=PermissionTier.ALWAYS_CONFIRM,
        message=text,
    )
    context = context_pb.TurnContext(
        turn_id=turn_id,
        session_id=session_id,
        user_id=minara.user_id,
        origin=ORIGIN.to_pb(Origin.HTTP),
        allowed_tool_sets=SETS,
        grant=grant,
    )
    request = agent_pb.RunTurnRequest(context=context, user_message=agent_pb.UserMessage(text=text))
    stub = agent_grpc.AgentServiceStub(minara.channel("orchestrator"))
    return [response async for response in stub.RunTurn(request)]


async def a_session(minara: Minara, signer: GrantSigner) -> str:
    stub = session_grpc.SessionServiceStub(minara.channel("workspace"))
    response = await stub.CreateSession(
        session_pb.CreateSessionRequest(request_id=RandomIds().new()),
        metadata=with_grant(signer.request(user_id=minara.user_id, scopes=[Scope.CHAT])),
    )
    return response.session.session_id


async def test_a_trusted_client_runs_a_turn_and_cannot_confirm(
    minara: Minara, partner: KeyPair
) -> None:
    signer = GrantSigner(partner, SystemClock(), RandomIds())
    session_id = await a_session(minara, signer)
    responses = await run_turn(minara, signer, "buy $50 of ETH", session_id)
    events = [event for response in responses for event in response.events]
    assert events[-1].WhichOneof("event") == "turn_completed"
    requested = next(e for e in events if e.WhichOneof("event") == "approval_requested")
    action = requested.approval_requested.action
    stub = approval_grpc.ApprovalServiceStub(minara.channel("tools"))
    for grant in (
        signer.confirmation(
            user_id=minara.user_id,
            pending_action_id=action.pending_action_id,
            action_hash=action.action_hash,
            decision="confirm",
        ),
        signer.request(user_id=minara.user_id, scopes=[Scope.TRADE]),
    ):
        with pytest.raises(NotAuthenticated):
            await stub.ConfirmAction(
                approval_pb.ConfirmActionRequest(
                    pending_action_id=action.pending_action_id, action_hash=action.action_hash
                ),
                metadata=with_grant(grant),
            )
    assert not await minara.rows("paper", "paper_orders")


async def test_a_stranger_with_a_key_of_their_own_is_nobody(minara: Minara) -> None:
    signer = GrantSigner(generate("partner"), SystemClock(), RandomIds())
    with pytest.raises(NotAuthenticated) as refusal:
        await a_session(minara, signer)
    assert refusal.value.reason is ErrorReason.GRANT_INVALID


async def test_an_unknown_session_is_a_status_not_a_stream(
    minara: Minara, partner: KeyPair
) -> None:
    signer = GrantSigner(partner, SystemClock(), RandomIds())
    with pytest.raises(NotFound) as refusal:
        await run_turn(minara, signer, "hi", RandomIds().new())
    assert refusal.value.reason is ErrorReason.SESSION_NOT_FOUND


async def test_a_message_that_was_not_signed_is_refused(minara: Minara, partner: KeyPair) -> None:
    signer = GrantSigner(partner, SystemClock(), RandomIds())
    session_id = await a_session(minara, signer)
    turn_id = RandomIds().new()
    grant = signer.turn(
        user_id=minara.user_id,
        session_id=session_id,
        turn_id=turn_id,
        origin=Origin.HTTP,
        tool_sets=SETS,
        ceiling=PermissionTier.ALWAYS_CONFIRM,
        message="price of BTC",
    )
    request = agent_pb.RunTurnRequest(
        context=context_pb.TurnContext(
            turn_id=turn_id,
            session_id=session_id,
            user_id=minara.user_id,
            origin=ORIGIN.to_pb(Origin.HTTP),
            allowed_tool_sets=SETS,
            grant=grant,
        ),
        user_message=agent_pb.UserMessage(text="buy $50 of ETH"),
    )
    stub = agent_grpc.AgentServiceStub(minara.channel("orchestrator"))
    with pytest.raises(NotAuthenticated) as refusal:
        async for _ in stub.RunTurn(request):
            pass
    assert refusal.value.reason is ErrorReason.GRANT_MISMATCH
