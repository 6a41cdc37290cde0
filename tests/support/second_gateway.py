"""A further gateway of an installation, behind which an orchestrator of the test's own sits."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara_core.clock import SystemClock
from minara_core.ids import RandomIds
from minara_gateway import main as gateway_main
from minara_gateway.client import GatewayClient
from minara_gateway.peers import Channels
from minara_gateway.serving import serving
from minara_runtime.channels import connect_in_process
from minara_runtime.inprocess import InProcessServer
from support.cluster import HOST, Port
from support.minara import Minara


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondGateway:
    """The gateway, where it listens, and a client of it with the person's token."""

    gateway: gateway_main.Gateway
    url: str
    client: GatewayClient


@asynccontextmanager
async def a_gateway_before(
    orchestrator: agent_grpc.AgentServiceServicer, minara: Minara
) -> AsyncGenerator[GatewayClient]:
    """A client of it with the person's token. Everything but the orchestrator is the true one."""
    async with a_second_gateway(orchestrator, minara) as second:
        yield second.client


@asynccontextmanager
async def a_second_gateway(
    orchestrator: agent_grpc.AgentServiceServicer, minara: Minara
) -> AsyncGenerator[SecondGateway]:
    """The same with the gateway itself."""
    async with AsyncExitStack() as stack:
        server = InProcessServer()
        agent_grpc.add_AgentServiceServicer_to_server(orchestrator, server)
        await server.start()
        stack.push_async_callback(server.stop, None)
        gateway = gateway_main.build(
            minara.installation.gateway_settings(),
            Channels(
                orchestrator=connect_in_process(server, peer="orchestrator"),
                workspace=minara.channel("workspace"),
                tools=minara.channel("tools"),
            ),
            clock=SystemClock(),
            ids=RandomIds(),
        )
        stack.push_async_callback(gateway.aclose)
        port = Port()
        stack.callback(port.close)
        await stack.enter_async_context(serving(gateway.app, port.listener()))
        url = f"http://{HOST}:{port.number}"
        client = GatewayClient.over_url(url, minara.token)
        stack.push_async_callback(client.aclose)
        yield SecondGateway(gateway=gateway, url=url, client=client)
