"""`GET /v1/tools`: which tools there are, in which sets, and what does not work here."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara_core.taxonomy import Scope
from minara_gateway.auth import requires
from minara_gateway.peers import READ_SECONDS, GrantDesk, Peers
from minara_gateway.reply import as_json
from minara_gateway.store import Caller

router = APIRouter(prefix="/v1")

Reader = Annotated[Caller, Depends(requires(Scope.READ))]


@router.get("/tools")
async def list_tools(request: Request, caller: Reader) -> dict[str, Any]:
    """Every tool set with its tools and their tiers; empty ones say why."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.tools.ListTools(
        tools_pb.ListToolsRequest(), metadata=grants.request(caller), timeout=READ_SECONDS
    )
    needs = {one.name: one.needs for one in response.unavailable_tools}
    definitions = as_json(response)["definitions"]
    return {
        "tool_sets": [
            {
                "name": one.name,
                "includes": list(one.includes),
                "empty_reason": one.empty_reason,
                "tools": [
                    {
                        "name": each["name"],
                        "permission_tier": each["permission_tier"],
                        "is_fund_moving": each["is_fund_moving"],
                        "needs": needs.get(each["name"], ""),
                    }
                    for each in definitions
                    if each["tool_set"] == one.name
                ],
            }
            for one in response.tool_sets
        ],
        "etag": response.etag,
    }
