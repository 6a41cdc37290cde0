"""One servicer behind either kind of channel."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import grpc.aio

from minara_runtime.channels import connect, connect_in_process
from minara_runtime.inprocess import InProcessChannel, InProcessServer
from minara_runtime.server import serve
from minara_runtime.service import Service, Servicer

KINDS = ("in_process", "tcp")


async def nothing() -> None:
    """A start or a close with nothing to do."""


def a_service(register: Callable[[grpc.aio.Server], None], name: str = "echo") -> Service:
    servicer = Servicer(full_name="minara_echo.v1.EchoService", register=register)
    return Service(name=name, servicers=(servicer,), start=nothing, aclose=nothing)


@asynccontextmanager
async def a_channel(
    kind: str,
    register: Callable[[grpc.aio.Server], None],
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    *,
    is_raw: bool = False,
) -> AsyncGenerator[grpc.aio.Channel]:
    """A channel of `kind`, to a server of its own; `is_raw` without our calling side."""
    if kind == "in_process":
        server = InProcessServer(interceptors)
        register(server)
        channel = InProcessChannel(server) if is_raw else connect_in_process(server, peer="echo")
        try:
            yield channel
        finally:
            await channel.close()
            await server.stop(None)
        return
    handle = await serve(
        a_service(register), "127.0.0.1:0", interceptors=interceptors, grace_seconds=0.0
    )
    target = f"127.0.0.1:{handle.port}"
    channel = grpc.aio.insecure_channel(target) if is_raw else connect(target, peer="echo")
    try:
        yield channel
    finally:
        await channel.close()
        await handle.stop()
