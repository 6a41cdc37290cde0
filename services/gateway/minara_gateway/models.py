"""`/v1/models`: which models answer, and the caller's own choice of one."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request

from minara.orchestrator.v1 import model_service_pb2 as model_pb
from minara_core.taxonomy import Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import ModelBody
from minara_gateway.peers import PROBE_SECONDS, READ_SECONDS, GrantDesk, Peers
from minara_gateway.reply import as_json
from minara_gateway.store import Caller

router = APIRouter(prefix="/v1/models")

Reader = Annotated[Caller, Depends(requires(Scope.READ))]
Chatter = Annotated[Caller, Depends(requires(Scope.CHAT))]
Provider = Annotated[str, Path(max_length=40, pattern=r"^[a-z]+$")]


@router.get("")
async def list_models(request: Request, caller: Reader) -> dict[str, Any]:
    """The models of each role, what the caller may choose, and what they chose."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.models.ListModels(
        model_pb.ListModelsRequest(), metadata=grants.request(caller), timeout=READ_SECONDS
    )
    return as_json(response)


@router.get("/{provider}")
async def list_provider_models(
    request: Request, provider: Provider, caller: Chatter
) -> dict[str, Any]:
    """What one provider itself lists."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.models.ListProviderModels(
        model_pb.ListProviderModelsRequest(provider=provider),
        metadata=grants.request(caller),
        timeout=PROBE_SECONDS,
    )
    return as_json(response)


@router.put("/chosen")
async def choose_model(request: Request, body: ModelBody, caller: Chatter) -> dict[str, Any]:
    """Choose who answers first from the next turn on; it is asked for a word before."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.models.ChooseModel(
        model_pb.ChooseModelRequest(model=body.model),
        metadata=grants.request(caller),
        timeout=PROBE_SECONDS,
    )
    return as_json(response)
