"""Nobody gets in without a grant of the right type that covers the call, on any channel."""

from collections.abc import AsyncGenerator
from typing import Any

import grpc.aio
import pytest

from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import tool_service_pb2_grpc
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core import errors
from minara_core.grant import GrantType
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin, Scope
from minara_runtime import telemetry
from minara_runtime.channels import with_grant
from minara_runtime.convert_enums import ORIGIN
from minara_runtime.interceptors import server_interceptors
from support.channels import KINDS, a_channel
from support.grants import SESSION, TURN, USER, Installation, a_context, an_installation
from support.methods import Method, add_unimplemented_servicers, every_method

METHODS = every_method()
LIST_TOOLS = "minara.tools.v1.ToolService/ListTools"


@pytest.fixture
def installation() -> Installation:
    return an_installation()


@pytest.fixture(params=KINDS)
async def channel(
    request: pytest.FixtureRequest, installation: Installation
) -> AsyncGenerator[grpc.aio.Channel]:
    interceptors = server_interceptors(installation.verifier, telemetry.disabled())
    async with a_channel(request.param, add_unimplemented_servicers, interceptors) as opened:
        yield opened


async def refusal(channel: grpc.aio.Channel, method: Method, token: str) -> errors.MinaraError:
    """How a call of an unimplemented method fails; the grant is sent in both places."""
    context = a_context(grant=token)
    with pytest.raises(errors.MinaraError) as caught:
        await _call(channel, method, context, token)
    return caught.value


async def _call(
    channel: grpc.aio.Channel, method: Method, context: context_pb.TurnContext, token: str
) -> None:
    codec: Any = (method.request_class.SerializeToString, method.response_class.FromString)
    metadata = with_grant(token) if token else ()
    request = method.request(context)
    if method.client_streaming:
        await channel.stream_unary(method.path, *codec)(iter([request]), metadata=metadata)
    elif method.server_streaming:
        stream: Any = channel.unary_stream(method.path, *codec)(request, metadata=metadata)
        await anext(stream)
    else:
        await channel.unary_unary(method.path, *codec)(request, metadata=metadata)


def grants_of_every_type(installation: Installation) -> dict[GrantType, str]:
    return {
        GrantType.TURN: installation.turn_grant(),
        GrantType.REQUEST: installation.request_grant(*Scope),
        GrantType.RUN: installation.run_grant(origin=Origin.HTTP),
        GrantType.CONFIRMATION: installation.confirmation_grant(),
        GrantType.SERVICE: installation.service_grant(
            *(method.path.lstrip("/") for method in METHODS)
        ),
    }


def test_every_method_says_which_grants_it_takes() -> None:
    assert METHODS
    assert [method.path for method in METHODS if method.rule is None] == []


async def test_no_method_answers_without_a_grant(channel: grpc.aio.Channel) -> None:
    for method in METHODS:
        error = await refusal(channel, method, "")
        assert isinstance(error, errors.NotAuthenticated), method.path
        assert error.reason is ErrorReason.GRANT_MISSING, method.path


async def test_no_method_answers_to_a_grant_of_strangers(channel: grpc.aio.Channel) -> None:
    for method in METHODS:
        for token in grants_of_every_type(an_installation()).values():
            error = await refusal(channel, method, token)
            assert isinstance(error, errors.NotAuthenticated), method.path
            assert error.reason is ErrorReason.GRANT_INVALID, method.path


async def test_each_method_takes_its_own_types_of_grant_and_no_other(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    for method in METHODS:
        assert method.rule is not None
        for grant_type, token in grants_of_every_type(installation).items():
            error = await refusal(channel, method, token)
            is_taken = grant_type in method.rule.types
            expected = ErrorReason.UNIMPLEMENTED if is_taken else ErrorReason.GRANT_WRONG_TYPE
            assert error.reason is expected, f"{method.path} {grant_type}"


COMMIT_TURN = "/minara.workspace.v1.ContextService/CommitTurn"


async def test_an_expired_grant_opens_nothing_but_the_record_of_its_turn(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    tokens = grants_of_every_type(installation)
    longest = max(installation.verifier.verify(token).expire_time for token in tokens.values())
    installation.clock.advance(longest - installation.clock.now())
    for method in METHODS:
        assert method.rule is not None
        for grant_type in method.rule.types & tokens.keys():
            error = await refusal(channel, method, tokens[grant_type])
            is_record = method.path == COMMIT_TURN
            expected = ErrorReason.UNIMPLEMENTED if is_record else ErrorReason.GRANT_EXPIRED
            assert error.reason is expected, f"{method.path} {grant_type}"


async def test_a_request_grant_needs_the_scope_of_the_method(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    for method in METHODS:
        assert method.rule is not None
        if GrantType.REQUEST not in method.rule.types:
            continue
        others = [scope for scope in Scope if scope is not method.rule.scope]
        error = await refusal(channel, method, installation.request_grant(*others))
        assert isinstance(error, errors.NotPermitted), method.path
        assert error.reason is ErrorReason.SCOPE_MISSING


async def test_a_service_grant_must_list_the_method(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    stub = tool_service_pb2_grpc.ToolServiceStub(channel)
    token = installation.service_grant("minara.tools.v1.ToolService/OpenTurn")
    with pytest.raises(errors.NotAuthenticated) as caught:
        await stub.ListTools(tools_pb.ListToolsRequest(), metadata=with_grant(token))
    assert caught.value.reason is ErrorReason.GRANT_MISMATCH
    token = installation.service_grant(LIST_TOOLS)
    with pytest.raises(errors.InternalError) as reached:
        await stub.ListTools(tools_pb.ListToolsRequest(), metadata=with_grant(token))
    assert reached.value.reason is ErrorReason.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user_id", "somebody"),
        ("session_id", "another"),
        ("turn_id", "another"),
        ("origin", ORIGIN.to_pb(Origin.REPL)),
        ("origin", 0),
        ("origin", 99),
        ("allowed_tool_sets", ["read", "perps"]),
    ],
)
async def test_a_turn_grant_covers_its_own_turn_only(
    channel: grpc.aio.Channel, installation: Installation, field: str, value: Any
) -> None:
    context = a_context(grant=installation.turn_grant())
    changed: dict[str, Any] = {
        "user_id": USER,
        "session_id": SESSION,
        "turn_id": TURN,
        "origin": context.origin,
        "allowed_tool_sets": list(context.allowed_tool_sets),
        "grant": context.grant,
        field: value,
    }
    stub = tool_service_pb2_grpc.ToolServiceStub(channel)
    request = tools_pb.OpenTurnRequest(context=context_pb.TurnContext(**changed))
    with pytest.raises(errors.NotAuthenticated) as caught:
        await stub.OpenTurn(request)
    assert caught.value.reason is ErrorReason.GRANT_MISMATCH
    assert caught.value.metadata == {"field": field}


async def test_a_run_grant_never_speaks_for_a_person(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    stub = tool_service_pb2_grpc.ToolServiceStub(channel)
    token = installation.run_grant(origin=Origin.CRON)
    request = tools_pb.OpenTurnRequest(context=a_context(grant=token))
    with pytest.raises(errors.NotAuthenticated) as caught:
        await stub.OpenTurn(request)
    assert caught.value.metadata == {"field": "origin"}


async def test_fewer_tool_sets_than_granted_are_fine(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    context = a_context(grant=installation.turn_grant())
    del context.allowed_tool_sets[:]
    stub = tool_service_pb2_grpc.ToolServiceStub(channel)
    with pytest.raises(errors.InternalError) as reached:
        await stub.OpenTurn(tools_pb.OpenTurnRequest(context=context))
    assert reached.value.reason is ErrorReason.UNIMPLEMENTED


async def test_a_request_grant_speaks_for_its_own_user_only(
    channel: grpc.aio.Channel, installation: Installation
) -> None:
    token = installation.request_grant(Scope.CHAT)
    method = next(method for method in METHODS if method.path.endswith("/RunTurn"))
    foreign = context_pb.TurnContext(user_id="somebody")
    with pytest.raises(errors.NotAuthenticated) as caught:
        await _call(channel, method, foreign, token)
    assert caught.value.metadata == {"field": "user_id"}
    request = agent_pb.RunTurnRequest(context=context_pb.TurnContext(user_id=USER))
    assert method.request_class is type(request)
    with pytest.raises(errors.InternalError) as reached:
        await _call(channel, method, request.context, token)
    assert reached.value.reason is ErrorReason.UNIMPLEMENTED
