"""Find the Minara that runs on this data folder, or start one in this process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from minara_core.clock import pause
from minara_core.errors import Conflict, Unavailable
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.reasons import ErrorReason
from minara_gateway.client import GatewayClient
from minara_gateway.embedded import EmbeddedSettings, run_embedded
from minara_gateway.main import TOKEN_FILE
from minara_gateway.serving import SOCKET_FILE, bind_tcp, bind_unix, serving
from minara_runtime import telemetry
from minara_runtime.collector import leave_to_live
from minara_runtime.settings import Settings, read

STARTING_SECONDS = 20.0
"""How long a second process waits for the one that is just starting here."""


class FailpointSettings(Settings):
    """For crash tests alone: where to die, and the file that proves it."""

    failpoint: str | None = None
    failpoint_file: str | None = None


def _nothing() -> None:
    """Nothing is held here: another process writes its own traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A client of a running Minara. When this process runs it, `parts` says what it is made of,
    `url` is set if it is served over TCP too, and `flush_traces` writes out what is still held."""

    client: GatewayClient
    url: str = ""
    token: str = ""
    is_ours: bool = False
    parts: tuple[str, ...] = ()
    flush_traces: Callable[[], None] = _nothing


@asynccontextmanager
async def attach(settings: EmbeddedSettings) -> AsyncGenerator[Attached]:
    """The running Minara of `MINARA_URL` or of the data folder, else one started here."""
    async with AsyncExitStack() as stack:
        yield await _attached(settings, stack)


async def _attached(settings: EmbeddedSettings, stack: AsyncExitStack) -> Attached:
    """Attach to what runs; if another process is just starting, wait for it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + STARTING_SECONDS
    while True:
        running = await find_running(settings)
        if running is not None:
            stack.push_async_callback(running.aclose)
            return Attached(client=running)
        try:
            return await stack.enter_async_context(start(settings, over_tcp=False))
        except Conflict as held:
            if (
                held.reason is not ErrorReason.LEASE_LOST
                or asyncio.get_running_loop().time() >= end
            ):
                raise
        await pause(0.1)


async def find_running(settings: EmbeddedSettings) -> GatewayClient | None:
    """A client of the Minara that answers, or None."""
    gateway = settings.gateway
    token_file = gateway.data_dir / TOKEN_FILE
    token = gateway.http_token or (
        token_file.read_text(encoding="ascii").strip() if token_file.exists() else ""
    )
    if gateway.url:
        client = GatewayClient.over_url(gateway.url, token)
        if await client.healthy():
            return client
        await client.aclose()
        raise Unavailable(
            f"no Minara answers at {gateway.url} (MINARA_URL)", metadata={"peer": gateway.url}
        )
    socket = gateway.data_dir / SOCKET_FILE
    if not socket.exists():
        return None
    client = GatewayClient.over_socket(socket, token)
    if await client.healthy():
        return client
    await client.aclose()
    return None


@asynccontextmanager
async def start(settings: EmbeddedSettings, *, over_tcp: bool) -> AsyncGenerator[Attached]:
    """Run all services here and serve them on the data folder's socket, and over TCP if asked.

    Raises Conflict when another process runs on this data folder.
    """
    traces = telemetry.configure(settings.gateway, "minara")
    try:
        async with run_embedded(settings, telemetry=traces, failpoint=_failpoint()) as engine:
            gateway = settings.gateway
            listeners = [bind_unix(gateway.data_dir / SOCKET_FILE)]
            url = ""
            if over_tcp:
                tcp = bind_tcp(gateway.host, gateway.port)
                listeners.append(tcp)
                url = f"http://{_authority(gateway.host, tcp.getsockname()[1])}"
            async with serving(engine.gateway.app, *listeners):
                leave_to_live()
                client = GatewayClient.over_socket(
                    gateway.data_dir / SOCKET_FILE, engine.gateway.token
                )
                try:
                    yield Attached(
                        client=client,
                        url=url,
                        token=engine.gateway.token,
                        is_ours=True,
                        parts=engine.parts,
                        flush_traces=traces.flush,
                    )
                finally:
                    # Where others are connected too, they are told where to go on, not cut off.
                    engine.gateway.end_streams()
                    await client.aclose()
                    (gateway.data_dir / SOCKET_FILE).unlink(missing_ok=True)
    finally:
        traces.close()


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _failpoint() -> Failpoint:
    wanted = read(FailpointSettings)
    if wanted.failpoint is None or wanted.failpoint_file is None:
        return no_failpoint
    file = wanted.failpoint_file
    sys.stderr.write(f"this process will kill itself at {wanted.failpoint}\n")

    def die(name: str) -> None:
        if name == wanted.failpoint:
            with open(file, "w", encoding="ascii") as hit:
                hit.write(name)
                hit.flush()
                os.fsync(hit.fileno())
            os.kill(os.getpid(), signal.SIGKILL)

    return die
