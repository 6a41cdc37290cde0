"""The tool list as the orchestrator keeps it: read once, read again when it changed, never lost."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara_core.errors import Unavailable
from minara_orchestrator.adapters.tools_client import ToolsClient
from minara_runtime.channels import connect_in_process
from minara_runtime.inprocess import InProcessServer


class Listing(tools_grpc.ToolServiceServicer):
    """A tools service that lists one tool under an etag, while it is up."""

    def __init__(self) -> None:
        self.etag = "one"
        self.is_up = True
        self.asked = 0

    async def ListTools(self, request: Any, context: Any) -> tools_pb.ListToolsResponse:
        self.asked += 1
        if not self.is_up:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "tools are down")
        return tools_pb.ListToolsResponse(etag=self.etag)


@dataclass(frozen=True)
class House:
    tools: Listing
    client: ToolsClient


@pytest.fixture
async def house() -> AsyncGenerator[House]:
    tools = Listing()  # pyright: ignore[reportAbstractUsage] - the rest is never called
    server = InProcessServer()
    tools_grpc.add_ToolServiceServicer_to_server(tools, server)
    await server.start()
    yield House(tools, ToolsClient(connect_in_process(server, peer="tools"), lambda: "grant"))
    await server.stop(None)


async def test_the_list_is_read_once(house: House) -> None:
    assert (await house.client.catalog()).etag == "one"
    house.client.expire_catalog("one")
    await house.client.catalog()
    assert house.tools.asked == 1


async def test_another_etag_is_read_again(house: House) -> None:
    await house.client.catalog()
    house.tools.etag = "two"
    house.client.expire_catalog("two")
    assert (await house.client.catalog()).etag == "two"


async def test_while_tools_is_away_the_last_list_stays_and_is_read_anew_later(
    house: House,
) -> None:
    await house.client.catalog()
    house.tools.etag, house.tools.is_up = "two", False
    house.client.expire_catalog("two")
    assert (await house.client.catalog()).etag == "one"
    house.tools.is_up = True
    assert (await house.client.catalog()).etag == "two"


async def test_without_any_list_that_tools_is_away_is_said(house: House) -> None:
    house.tools.is_up = False
    with pytest.raises(Unavailable):
        await house.client.catalog()
