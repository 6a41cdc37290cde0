"""What only a server on a socket does: health, reflection, shutdown, TLS, retries, signals."""

import asyncio
import datetime
import json
import os
import signal
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2 as health_pb
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2 as reflection_pb
from grpc_reflection.v1alpha import reflection_pb2_grpc

from minara.tools.v1 import approval_service_pb2 as approvals_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import tool_service_pb2_grpc
from minara_core import errors
from minara_runtime import telemetry
from minara_runtime.addresses import peer_target
from minara_runtime.channels import connect, service_config
from minara_runtime.interceptors import server_interceptors
from minara_runtime.server import run_until_signal, serve
from minara_runtime.service import Service
from minara_runtime.tls import Tls
from support.channels import a_service
from support.echo import SERVICE, EchoServicer, EchoStub, echo
from support.eventually import eventually
from support.grants import an_installation

SERVING = health_pb.HealthCheckResponse.SERVING
NOT_SERVING = health_pb.HealthCheckResponse.NOT_SERVING


async def health_of(channel: grpc.aio.Channel, name: str = SERVICE) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb.HealthCheckRequest(service=name))).status


async def test_health_answers_without_a_grant_for_each_service_by_name() -> None:
    interceptors = server_interceptors(an_installation().verifier, telemetry.disabled())
    service = a_service(EchoServicer().register)
    handle = await serve(service, "127.0.0.1:0", interceptors=interceptors, grace_seconds=0.0)
    async with connect(f"127.0.0.1:{handle.port}", peer="echo") as channel:
        assert await health_of(channel) == SERVING
        assert await health_of(channel, "") == SERVING
        with pytest.raises(errors.InternalError):
            await health_of(channel, "minara.unknown.Service")
    await handle.stop()


async def test_health_follows_readiness() -> None:
    is_ready = False

    async def readiness() -> bool:
        return is_ready

    service = replace(a_service(EchoServicer().register), is_ready=readiness)
    handle = await serve(service, "127.0.0.1:0", interceptors=(), grace_seconds=0.0)
    async with (
        grpc.aio.insecure_channel(f"127.0.0.1:{handle.port}") as channel,
        connect(f"127.0.0.1:{handle.port}", peer="echo") as caller,
    ):
        assert await health_of(channel) == NOT_SERVING
        with pytest.raises(errors.Unavailable):
            await EchoStub(caller).say(echo(), timeout=5)
        is_ready = True

        async def serves() -> bool:
            return await health_of(channel) == SERVING

        await eventually(serves)

        async def answers() -> bool:
            try:
                return (await EchoStub(caller).say(echo("hello"), timeout=5)).text == "hello"
            except errors.Unavailable:
                return False

        await eventually(answers)
    await handle.stop()


async def test_calls_go_round_the_replicas_that_serve() -> None:
    asked: list[int] = []
    is_ready = [True, True, True]

    def replica(number: int) -> Service:
        async def say(request: Any, context: Any) -> Any:
            asked.append(number)
            return echo("done")

        async def readiness() -> bool:
            return is_ready[number]

        return replace(a_service(EchoServicer(say=say).register), is_ready=readiness)

    handles = [
        await serve(replica(number), "127.0.0.1:0", interceptors=(), grace_seconds=0.0)
        for number in range(3)
    ]
    target = peer_target(",".join(f"127.0.0.1:{handle.port}" for handle in handles))
    async with connect(target, peer="echo") as channel:
        stub = EchoStub(channel)

        async def have_all_answered() -> bool:
            await stub.say(echo(), timeout=5)
            return set(asked) == {0, 1, 2}

        await eventually(have_all_answered)
        is_ready[1] = False
        await handles[2].stop()

        async def is_alone() -> bool:
            asked.clear()
            for _ in range(6):
                await stub.say(echo(), timeout=5)
            return set(asked) == {0}

        await eventually(is_alone)
    for handle in handles[:2]:
        await handle.stop()


async def test_reflection_lists_the_services_when_switched_on() -> None:
    service = a_service(EchoServicer().register)
    for reflect in (True, False):
        handle = await serve(
            service, "127.0.0.1:0", interceptors=(), reflect=reflect, grace_seconds=0.0
        )
        async with connect(f"127.0.0.1:{handle.port}", peer="echo") as channel:
            untyped: Any = channel
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(untyped)
            asked = reflection_pb.ServerReflectionRequest(list_services="")
            stream = stub.ServerReflectionInfo(iter([asked]))
            if reflect:
                answer = await anext(stream)
                names = {found.name for found in answer.list_services_response.service}
                assert SERVICE in names
                stream.cancel()
            else:
                with pytest.raises(errors.InternalError):
                    await anext(stream)
        await handle.stop()


async def test_a_stopping_server_lets_a_running_call_end_and_says_not_serving() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Any, context: Any) -> Any:
        begun.set()
        await go_on.wait()
        return echo("done")

    service = a_service(EchoServicer(say=slow).register)
    handle = await serve(service, "127.0.0.1:0", interceptors=(), grace_seconds=10.0)
    async with connect(f"127.0.0.1:{handle.port}", peer="echo") as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb.HealthCheckRequest(service=SERVICE))
        assert (await anext(watch)).status == SERVING
        call = EchoStub(channel).say(echo())
        await asyncio.wait_for(begun.wait(), 5)
        stopping = asyncio.create_task(handle.stop())
        assert (await anext(watch)).status == NOT_SERVING
        watch.cancel()
        go_on.set()
        assert (await call).text == "done"
        await asyncio.wait_for(stopping, 10)


async def test_an_address_in_use_is_refused() -> None:
    service = a_service(EchoServicer().register)
    handle = await serve(service, "127.0.0.1:0", interceptors=(), grace_seconds=0.0)
    with pytest.raises(errors.Conflict):
        await serve(service, f"127.0.0.1:{handle.port}", interceptors=())
    await handle.stop()


async def test_a_peer_that_is_not_there_is_unavailable() -> None:
    async with connect("127.0.0.1:1", peer="tools") as channel:
        with pytest.raises(errors.Unavailable) as caught:
            await EchoStub(channel).say(echo(), timeout=5)
    assert caught.value.metadata == {"peer": "tools"}


async def test_sigterm_ends_a_service_in_good_order() -> None:
    happened: list[str] = []

    async def start() -> None:
        happened.append("start")

    async def aclose() -> None:
        happened.append("aclose")

    service = replace(a_service(EchoServicer().register), start=start, aclose=aclose)
    running = asyncio.create_task(
        run_until_signal(service, "127.0.0.1:0", interceptors=(), grace_seconds=0.0)
    )
    await eventually(lambda: happened == ["start"])
    await eventually(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 10)
    assert happened == ["start", "aclose"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_what_runs_without_a_call_is_let_end_within_the_grace() -> None:
    happened: list[str] = []

    async def drain(seconds: float) -> None:
        assert 0 < seconds <= 5
        happened.append("drain")

    async def aclose() -> None:
        happened.append("aclose")

    service = replace(a_service(EchoServicer().register), drain=drain, aclose=aclose)
    running = asyncio.create_task(
        run_until_signal(service, "127.0.0.1:0", interceptors=(), grace_seconds=5.0)
    )
    await eventually(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 10)
    assert happened == ["drain", "aclose"]


def test_what_may_be_done_twice_is_retried_and_a_decision_is_not() -> None:
    config = json.loads(service_config([tools_pb.DESCRIPTOR, approvals_pb.DESCRIPTOR]))
    (policy,) = config["methodConfig"]
    names = {f"{name['service']}/{name['method']}" for name in policy["name"]}
    assert names == {
        "minara.tools.v1.ToolService/ListTools",
        "minara.tools.v1.ToolService/OpenTurn",
        "minara.tools.v1.ToolService/CloseTurn",
        "minara.tools.v1.ToolService/ExecuteTools",
        "minara.tools.v1.ApprovalService/ListPendingActions",
        "minara.tools.v1.ApprovalService/GetPendingAction",
    }
    assert policy["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]


def test_several_addresses_are_one_target() -> None:
    assert peer_target("tools:50054") == "tools:50054"
    assert peer_target("127.0.0.1:1, localhost:2") == "ipv4:127.0.0.1:1,127.0.0.1:2"
    assert peer_target("[::1]:1,[::1]:2") == "ipv6:[::1]:1,[::1]:2"
    assert peer_target("dns:///tools:50054") == "dns:///tools:50054"
    for wrong in ("", "tools", "tools:", ":1", "tools:70000", "::1:5", "a:1,b:2", "127.0.0.1:1,"):
        with pytest.raises(ValueError, match=r"host:port|address"):
            peer_target(wrong)


async def test_a_call_is_tried_again_only_under_its_contract() -> None:
    calls = {"ListTools": 0, "OpenTurn": 0}

    async def list_tools(request: Any, context: Any) -> Any:
        calls["ListTools"] += 1
        if calls["ListTools"] < 3:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return tools_pb.ListToolsResponse(etag="third")

    async def open_turn(request: Any, context: Any) -> Any:
        calls["OpenTurn"] += 1
        await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")

    def register(server: grpc.aio.Server) -> None:
        handlers: dict[str, Any] = {
            "ListTools": grpc.unary_unary_rpc_method_handler(
                list_tools,
                tools_pb.ListToolsRequest.FromString,
                tools_pb.ListToolsResponse.SerializeToString,
            ),
            "OpenTurn": grpc.unary_unary_rpc_method_handler(
                open_turn,
                tools_pb.OpenTurnRequest.FromString,
                tools_pb.OpenTurnResponse.SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("minara.tools.v1.ToolService", handlers),)
        )

    handle = await serve(a_service(register), "127.0.0.1:0", interceptors=(), grace_seconds=0.0)
    target = f"127.0.0.1:{handle.port}"
    async with connect(target, peer="tools", contracts=[tools_pb.DESCRIPTOR]) as channel:
        stub = tool_service_pb2_grpc.ToolServiceStub(channel)
        assert (await stub.ListTools(tools_pb.ListToolsRequest())).etag == "third"
    async with connect(target, peer="tools") as channel:
        stub = tool_service_pb2_grpc.ToolServiceStub(channel)
        with pytest.raises(errors.Unavailable):
            await stub.OpenTurn(tools_pb.OpenTurnRequest())
    await handle.stop()
    assert calls == {"ListTools": 3, "OpenTurn": 1}


async def test_with_tls_only_callers_of_our_authority_get_in() -> None:
    tls, strangers = a_tls("echo"), a_tls("echo")
    service = a_service(EchoServicer().register)
    handle = await serve(service, "127.0.0.1:0", interceptors=(), tls=tls, grace_seconds=0.0)
    target = peer_target(f"127.0.0.1:{handle.port},127.0.0.1:1")
    async with connect(target, peer="echo", tls=tls) as channel:
        assert (await EchoStub(channel).say(echo("hello"), timeout=5)).text == "hello"
    async with connect(target, peer="tools", tls=tls) as channel:  # a certificate names its service
        with pytest.raises((errors.Unavailable, errors.DeadlineExceeded)):
            await EchoStub(channel).say(echo("hello"), timeout=1)
    for stranger in (strangers, None):
        async with connect(target, peer="echo", tls=stranger) as channel:
            with pytest.raises((errors.Unavailable, errors.DeadlineExceeded)):
                await EchoStub(channel).say(echo("hello"), timeout=1)
    await handle.stop()


def a_tls(service: str) -> Tls:
    """A certificate for a service that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, service)])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(service)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Tls(certificate=pem, private_key=private, authority=pem)
