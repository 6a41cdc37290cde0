"""Serves a service over TCP: health, reflection, limits, and a shutdown that lets calls end."""

import asyncio
import contextvars
import signal
from collections.abc import Sequence

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2 as health_pb
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from minara_core.clock import pause
from minara_core.errors import Conflict
from minara_core.reasons import ErrorReason
from minara_runtime.collector import leave_to_live
from minara_runtime.limits import MAX_MESSAGE_BYTES
from minara_runtime.logging import get_logger
from minara_runtime.service import Service, running
from minara_runtime.tls import Tls

GRACE_SECONDS = 30.0
READY_CHECK_SECONDS = 1.0
LEAVING_SECONDS = 1.0
"""Between saying that we leave and refusing calls: how long callers have to hear it."""

_SHORTEST_PING_MS = 5_000
_LONGEST_CONNECTION_MS = 300_000
"""Callers then connect anew, and so find replicas that came since; running calls are let end."""
_STATUS = health_pb.HealthCheckResponse


class ServingHandle:
    """A server that answers. `port` is the one it listens on."""

    def __init__(
        self,
        server: grpc.aio.Server,
        health: HealthServicer,
        readiness: "asyncio.Task[None]",
        *,
        port: int,
        grace_seconds: float,
    ) -> None:
        self._server = server
        self._health = health
        self._readiness = readiness
        self._grace_seconds = grace_seconds
        self.port = port

    async def stop(self) -> None:
        """NOT_SERVING first, then take no new calls, then wait for running ones, then cancel."""
        self._readiness.cancel()
        await asyncio.wait([self._readiness])
        await self._health.enter_graceful_shutdown()
        leaving = min(LEAVING_SECONDS, self._grace_seconds / 2)
        await pause(leaving)
        await self._server.stop(self._grace_seconds - leaving)


async def serve(
    service: Service,
    address: str,
    *,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    tls: Tls | None = None,
    reflect: bool = True,
    grace_seconds: float = GRACE_SECONDS,
) -> ServingHandle:
    """Answer calls on `address` (`host:port`, port 0 for a free one).

    The service must have been started. Raises Conflict (`ALREADY_EXISTS`) when the address is taken
    or is none of this machine's.
    """
    server = grpc.aio.server(interceptors=interceptors, options=_options())
    for servicer in service.servicers:
        servicer.register(server)
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    names = tuple(servicer.full_name for servicer in service.servicers)
    if reflect:
        health_name = health_pb.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection((*names, health_name, reflection.SERVICE_NAME), server)
    port = _bind(server, address, tls)
    # Calls inherit the context the server was started in: it shall be an empty one.
    await asyncio.create_task(server.start(), context=contextvars.Context())
    await _tell(health, names, is_ready=await service.is_ready())
    readiness = asyncio.create_task(_watch(service, health, names))
    return ServingHandle(server, health, readiness, port=port, grace_seconds=grace_seconds)


async def run_until_signal(
    service: Service,
    address: str,
    *,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    tls: Tls | None = None,
    reflect: bool = True,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Start a service, serve it, and end in good order on SIGTERM or SIGINT."""
    log = get_logger("server")
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        async with running(service):
            handle = await serve(
                service,
                address,
                interceptors=interceptors,
                tls=tls,
                reflect=reflect,
                grace_seconds=grace_seconds,
            )
            log.info("serving", service=service.name, port=handle.port)
            leave_to_live()
            try:
                await stopping.wait()
            finally:
                end = loop.time() + grace_seconds
                await handle.stop()
                await service.drain(max(0.0, end - loop.time()))
            log.info("stopped", service=service.name)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _options() -> list[tuple[str, int]]:
    return [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _SHORTEST_PING_MS),
        ("grpc.max_connection_age_ms", _LONGEST_CONNECTION_MS),
        # Two servers on one port would share its calls by chance.
        ("grpc.so_reuseport", 0),
    ]


def _bind(server: grpc.aio.Server, address: str, tls: Tls | None) -> int:
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, tls.server_credentials())
    except RuntimeError:
        raise Conflict(
            f"{address} is taken, or is no address of this machine",
            reason=ErrorReason.ALREADY_EXISTS,
            metadata={"address": address},
        ) from None


async def _watch(service: Service, health: HealthServicer, names: Sequence[str]) -> None:
    was_ready: bool | None = None
    while True:
        is_ready = await service.is_ready()
        if is_ready is not was_ready:
            await _tell(health, names, is_ready=is_ready)
            was_ready = is_ready
        await pause(READY_CHECK_SECONDS)


async def _tell(health: HealthServicer, names: Sequence[str], *, is_ready: bool) -> None:
    status = _STATUS.SERVING if is_ready else _STATUS.NOT_SERVING
    for name in ("", *names):
        await health.set(name, status)
