"""LimitService over a real database, in this process, with a clock that a test moves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from minara.tools.v1 import limit_service_pb2_grpc as limit_grpc
from minara_core.ids import RandomIds
from minara_core.taxonomy import Scope
from minara_runtime import telemetry
from minara_runtime.channels import connect_in_process, with_grant
from minara_runtime.database import Database
from minara_runtime.inprocess import InProcessServer
from minara_runtime.interceptors import server_interceptors
from minara_tools.adapters.call_tracing import CallTracing
from minara_tools.adapters.grpc_server_limits import LimitServicer
from minara_tools.adapters.sql_addresses import SqlAddresses
from minara_tools.adapters.sql_limits import SqlLimits
from minara_tools.app.limit_control import LimitControl
from minara_tools.domain.venue_terms import AssetNetwork
from support.grants import Installation, an_installation
from support.tools.funds import a_network
from support.tools.venue import FakeVenue
from support.tools_world import FakeMarket


class VenueWithNetworks(FakeVenue):
    """A venue by whose chains assets can leave."""

    async def networks(self) -> tuple[AssetNetwork, ...]:
        return (
            a_network("ETH", "ethereum", "evm"),
            a_network("BTC", "bitcoin", "bitcoin"),
            a_network("SOL", "solana", "solana", needs_memo=True),
        )


@dataclass
class LimitsHouse:
    stub: "limit_grpc.LimitServiceAsyncStub"
    installation: Installation
    database: Database

    def grant(self, *scopes: Scope, user_id: str = "local") -> tuple[tuple[str, str], ...]:
        token = self.installation.gateway.request(user_id=user_id, scopes=scopes or tuple(Scope))
        return with_grant(token)


@asynccontextmanager
async def a_limits_house(database: Database) -> AsyncGenerator[LimitsHouse]:
    installation = an_installation()
    clock = installation.clock
    control = LimitControl(
        limits=SqlLimits(database, now=lambda _: clock.now()),
        addresses=SqlAddresses(database, now=lambda _: clock.now()),
        venue=VenueWithNetworks(FakeMarket(clock), clock),
        ids=RandomIds(),
        tracing=CallTracing(telemetry.disabled()),
    )
    server = InProcessServer(server_interceptors(installation.verifier, telemetry.disabled()))
    limit_grpc.add_LimitServiceServicer_to_server(LimitServicer(control), server)
    await server.start()
    channel = connect_in_process(server, peer="tools")
    try:
        yield LimitsHouse(limit_grpc.LimitServiceStub(channel), installation, database)
    finally:
        await channel.close()
        await server.stop(None)
