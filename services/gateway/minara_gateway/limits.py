"""`/v1/limits` and `/v1/addresses`: what a person allows themselves. Speaks to tools alone."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request

from minara.tools.v1 import limit_service_pb2 as limit_pb
from minara_core.taxonomy import Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import AddressBody, LimitsBody
from minara_gateway.peers import READ_SECONDS, GrantDesk, Peers
from minara_gateway.reply import as_json
from minara_gateway.store import Caller

router = APIRouter(prefix="/v1")

Reader = Annotated[Caller, Depends(requires(Scope.READ))]
Confirmer = Annotated[Caller, Depends(requires(Scope.CONFIRM))]
PageSize = Annotated[int, Query(ge=1, le=500)]
AddressId = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9-]+$")]


@router.get("/limits")
async def get_limits(request: Request, caller: Reader) -> dict[str, Any]:
    """The caller's limits now, and the raises that wait."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.limits.GetLimits(
        limit_pb.GetLimitsRequest(), metadata=grants.request(caller), timeout=READ_SECONDS
    )
    return as_json(response)


@router.patch("/limits")
async def update_limits(request: Request, body: LimitsBody, caller: Confirmer) -> dict[str, Any]:
    """Set limits: lower ones at once, higher ones an hour later."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.limits.UpdateLimits(
        limit_pb.UpdateLimitsRequest(preset=body.preset, values=body.values),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)


@router.get("/addresses")
async def list_addresses(
    request: Request, caller: Reader, page_size: PageSize = 100, page_token: str = ""
) -> dict[str, Any]:
    """The caller's address book, by name."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.limits.ListAddresses(
        limit_pb.ListAddressesRequest(page_size=page_size, page_token=page_token),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)


@router.post("/addresses")
async def add_address(request: Request, body: AddressBody, caller: Confirmer) -> dict[str, Any]:
    """Enter a recipient, usable 24 hours later; the same one again answers its entry."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.limits.AddAddress(
        limit_pb.AddAddressRequest(
            name=body.name, chain=body.chain, address=body.address, memo=body.memo
        ),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)


@router.delete("/addresses/{address_id}")
async def remove_address(
    request: Request, address_id: AddressId, caller: Confirmer
) -> dict[str, Any]:
    """Take a recipient out; again is the same."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.limits.RemoveAddress(
        limit_pb.RemoveAddressRequest(address_id=address_id),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)
