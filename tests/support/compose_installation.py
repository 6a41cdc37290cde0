"""The compose project of the container tests as an installation that the e2e suite runs against."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc.aio

from minara_core.ids import UserId
from minara_gateway.settings import GatewaySettings
from minara_runtime.addresses import peer_target
from minara_runtime.channels import connect
from minara_runtime.keys import CONFIRMATION, GATEWAY
from minara_runtime.telemetry import SPAN_FILE
from minara_tools.adapters.halt_file import NAME as HALT_FILE
from support.compose import ComposeProject, inspect, read_file, run_in
from support.installations import SharedInstallation, finds_everybody, finds_orchestrator

_DATA = "/data"
_GRPC_PORTS = {"orchestrator": 50051, "workspace": 50052, "skills": 50053, "tools": 50054}
_KEYS = tuple(f"{name}.{half}" for name in (GATEWAY, CONFIRMATION) for half in ("pem", "pub"))
_THIS_MACHINE = "host.docker.internal"
"""What the orchestrators' containers call the machine that the tests run on."""


class ComposeInstallation(SharedInstallation):
    """`environment` is added to what the project's services get. It stays up when it is closed."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(model_host=_THIS_MACHINE, model_listens_on="0.0.0.0")
        self._environment = dict(environment)
        self._project = ComposeProject.here(self._environment)
        self._folder = folder

    @property
    def gateways(self) -> tuple[str, ...]:
        return (f"127.0.0.1:{self._project.port}",)

    def channel(self, service: str, until: AsyncExitStack) -> grpc.aio.Channel:
        """Over the bridge that the engine has put on this machine; nothing is published."""
        places = [
            f"{address}:{_GRPC_PORTS[service]}"
            for container in self._project.containers(service)
            for address in _addresses(container)[:1]
        ]
        channel = connect(peer_target(",".join(places)), peer=service)
        until.push_async_callback(channel.close)
        return channel

    def database_url(self, name: str) -> str:
        return self._project.database_url(name)

    def gateway_settings(self) -> GatewaySettings:
        keys = self._folder / "keys" / "gateway"
        if not keys.exists():
            keys.mkdir(parents=True, mode=0o700)
            self._folder.chmod(0o700)
            (container,) = self._project.containers("gateway")
            for name in _KEYS:
                path = keys / name
                path.touch(mode=0o600)
                path.write_text(read_file(container, f"{_DATA}/keys/gateway/{name}"), "utf-8")
        return GatewaySettings(
            data_dir=self._folder, gateway_database_url=self.database_url("gateway")
        )

    async def page(self, user_id: UserId, name: str) -> str:
        container = self._project.containers("workspace")[0]
        path = f"{_DATA}/workspaces/{user_id}/{name}"
        reading = f"print(open({path!r}, encoding='utf-8').read())"
        return (await asyncio.to_thread(run_in, container, "python", "-c", reading)).stdout

    @asynccontextmanager
    async def halted_by_file(self) -> AsyncGenerator[None]:
        container = self._project.containers("tools")[0]
        file = self._folder / HALT_FILE
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(file.write_text, "by hand", "utf-8")
        async with self.down("tools"):
            await _docker("cp", str(file), f"{container}:{_DATA}/{HALT_FILE}")
        try:
            yield
        finally:
            removing = f"import os; os.unlink({_DATA + '/' + HALT_FILE!r})"
            done = await asyncio.to_thread(run_in, container, "python", "-c", removing)
            assert done.returncode == 0, done.stderr

    async def spans(self) -> Path:
        container = self._project.containers("workspace")[0]
        file = self._folder / "spans.ndjson"
        told = await asyncio.to_thread(read_file, container, f"{_DATA}/{SPAN_FILE}")
        await asyncio.to_thread(file.write_text, told, "utf-8")
        return file

    @asynccontextmanager
    async def down(self, service: str) -> AsyncGenerator[None]:
        await asyncio.to_thread(self._project.compose, "stop", service)
        try:
            yield
        finally:
            await self.start()

    async def restart_orchestrators(self, environment: Mapping[str, str]) -> None:
        self._project = ComposeProject.here(self._environment | dict(environment))
        await asyncio.to_thread(self._project.up)
        await self.settled(finds_orchestrator)

    async def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self._project.up)
        await self.settled(finds_everybody)

    def close(self) -> None:
        self._model_port.close()


def _addresses(container: str) -> list[str]:
    networks = inspect(container)["NetworkSettings"]["Networks"]
    return [network["IPAddress"] for network in networks.values() if network["IPAddress"]]


async def _docker(*arguments: str) -> None:
    done = await asyncio.to_thread(
        subprocess.run, ["docker", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
