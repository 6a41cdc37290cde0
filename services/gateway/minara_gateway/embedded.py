"""All five services in this process, on in-process channels: the default way to run Minara."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc.aio

from minara_core.clock import Clock, SystemClock
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import IdSource, RandomIds
from minara_gateway import main as gateway_main
from minara_gateway.main import Gateway
from minara_gateway.peers import Channels
from minara_gateway.request_tracing import trace_requests
from minara_gateway.settings import GatewaySettings
from minara_llm.model import ChatModel
from minara_orchestrator import main as orchestrator_main
from minara_runtime.channels import connect_in_process
from minara_runtime.data_folder import DataFolder
from minara_runtime.grants import GrantSigner, GrantVerifier
from minara_runtime.hosting import installation_keys
from minara_runtime.inprocess import InProcessServer
from minara_runtime.interceptors import server_interceptors
from minara_runtime.keys import SERVICES, read_public_keys
from minara_runtime.service import Service, running
from minara_runtime.settings import read
from minara_runtime.telemetry import Telemetry
from minara_skills import main as skills_main
from minara_tools import main as tools_main
from minara_workspace import main as workspace_main


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSettings:
    """Each service's own settings; all of them name the same data folder."""

    gateway: GatewaySettings
    orchestrator: orchestrator_main.OrchestratorSettings
    skills: skills_main.SkillsSettings
    tools: tools_main.ToolsSettings
    workspace: workspace_main.WorkspaceSettings


def read_settings(*, port: int | None = None, host: str | None = None) -> EmbeddedSettings:
    """All services' settings from the environment. Raises SettingsError."""
    changes: dict[str, object] = {"port": port, "host": host}
    given = {name: value for name, value in changes.items() if value is not None}
    return EmbeddedSettings(
        gateway=read(GatewaySettings).model_copy(update=given),
        orchestrator=read(orchestrator_main.OrchestratorSettings),
        skills=read(skills_main.SkillsSettings),
        tools=read(tools_main.ToolsSettings),
        workspace=read(workspace_main.WorkspaceSettings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running Minara: the gateway's app, a channel to each service, and for people one line per
    part that may be a demo."""

    gateway: Gateway
    orchestrator: grpc.aio.Channel
    workspace: grpc.aio.Channel
    skills: grpc.aio.Channel
    tools: grpc.aio.Channel
    parts: tuple[str, ...]


@asynccontextmanager
async def run_embedded(
    settings: EmbeddedSettings,
    *,
    telemetry: Telemetry,
    model: ChatModel | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    failpoint: Failpoint = no_failpoint,
) -> AsyncGenerator[Engine]:
    """Start leaf-first, stop in reverse. `model` takes the place of the configured one.

    Raises Conflict when another process runs on this data folder, SettingsError for a setting that
    does not fit.
    """
    clock, ids = clock or SystemClock(), ids or RandomIds()
    folder = DataFolder(settings.gateway.data_dir)
    async with AsyncExitStack() as stack:
        for name in SERVICES:
            stack.callback(folder.lock(name).release)
        orchestrator_key = installation_keys(folder, "orchestrator")
        public = read_public_keys(folder.path / "keys", settings.gateway.trusted_issuers)
        interceptors = server_interceptors(GrantVerifier(public, clock), telemetry, ids=ids)

        async def serve(service: Service) -> grpc.aio.Channel:
            return await stack.enter_async_context(_served(service, interceptors, telemetry))

        workspace = await serve(
            workspace_main.build(settings.workspace, clock=clock, ids=ids, failpoint=failpoint)
        )
        tools = await serve(
            tools_main.build(
                settings.tools, telemetry=telemetry, clock=clock, ids=ids, failpoint=failpoint
            )
        )
        skills = await serve(skills_main.build(settings.skills, clock=clock))
        orchestrator = await serve(
            orchestrator_main.build(
                settings.orchestrator,
                orchestrator_main.Peers(workspace=workspace, skills=skills, tools=tools),
                signer=GrantSigner(orchestrator_key, clock, ids),
                model=model,
                telemetry=telemetry,
                clock=clock,
                ids=ids,
                failpoint=failpoint,
            )
        )
        channels = Channels(orchestrator=orchestrator, workspace=workspace, tools=tools)
        gateway = gateway_main.build(settings.gateway, channels, clock=clock, ids=ids)
        trace_requests(gateway.app, telemetry)
        stack.push_async_callback(gateway.aclose)
        await gateway.start()
        yield Engine(
            gateway=gateway,
            orchestrator=orchestrator,
            workspace=workspace,
            skills=skills,
            tools=tools,
            parts=_parts(settings, model),
        )


@asynccontextmanager
async def _served(
    service: Service,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    telemetry: Telemetry,
) -> AsyncGenerator[grpc.aio.Channel]:
    """A running service behind an in-process server; yields the channel to it."""
    telemetry.metrics.watch(service.gauges)
    async with running(service):
        server = InProcessServer(interceptors)
        for servicer in service.servicers:
            servicer.register(server)
        await server.start()
        try:
            yield connect_in_process(server, peer=service.name)
        finally:
            await server.stop(None)


def _parts(settings: EmbeddedSettings, model: ChatModel | None) -> tuple[str, ...]:
    return (
        *orchestrator_main.describe(settings.orchestrator, model),
        *tools_main.describe(settings.tools),
        f"data folder: {settings.gateway.data_dir}",
    )
