"""`/v1/trading`: the emergency stop. Speaks to the tools service alone."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara_core.actions import Decision
from minara_core.errors import MinaraError
from minara_core.taxonomy import Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import HaltBody, ResolveBody, ResumeBody
from minara_gateway.confirmation import Confirmations
from minara_gateway.orders import shown_action
from minara_gateway.peers import CONFIRM_SECONDS, READ_SECONDS, GrantDesk, Peers
from minara_gateway.reply import as_json
from minara_gateway.showing import receipt_of
from minara_gateway.store import Caller, GatewayStore

router = APIRouter(prefix="/v1")

RESUME_ACTION_ID = "trading:resume"
"""What a confirmation grant for resuming binds, beside the etag of the state the person saw."""

Reader = Annotated[Caller, Depends(requires(Scope.READ))]
Chatter = Annotated[Caller, Depends(requires(Scope.CHAT))]
Confirmer = Annotated[Caller, Depends(requires(Scope.CONFIRM))]
Admin = Annotated[Caller, Depends(requires(Scope.ADMIN))]


@router.get("/trading")
async def state(request: Request, caller: Reader) -> dict[str, Any]:
    """The state that holds for the caller."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.control.GetTradingState(
        control_pb.GetTradingStateRequest(),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)


@router.post("/trading:halt")
async def halt(request: Request, caller: Chatter, body: HaltBody | None = None) -> dict[str, Any]:
    """Stop all trading of the caller at once; answers with what is still open at the venue, and
    with the sales that wait for a yes."""
    body = body or HaltBody()  # a stop takes no ceremony: an empty request is one
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.control.HaltTrading(
        control_pb.HaltTradingRequest(
            reason=body.reason,
            cancel_protection=body.cancel_protection,
            close_positions=body.close_positions,
        ),
        metadata=grants.request(caller),
        timeout=CONFIRM_SECONDS if body.close_positions else READ_SECONDS,
    )
    return as_json(response) | {
        "unsettled": [
            await _receipt(request, caller, one) for one in response.unsettled_action_ids
        ],
        "closing": [await _closing(request, caller, one) for one in response.closing_action_ids],
    }


async def _receipt(request: Request, caller: Caller, action_id: str) -> dict[str, Any]:
    """What is known of a move that is still open at the venue, or of which nobody knows."""
    confirmations: Confirmations = request.app.state.confirmations
    store: GatewayStore = request.app.state.store
    try:
        action = await confirmations.find(caller, action_id)
        receipt = await receipt_of(confirmations, store, caller, action, language="en")
    except MinaraError:
        receipt = ""  # the halt stands, whatever can be told of it
    return {"pending_action_id": action_id, "rendered_receipt": receipt}


async def _closing(request: Request, caller: Caller, action_id: str) -> dict[str, Any]:
    """A sale that waits for a person's yes."""
    confirmations: Confirmations = request.app.state.confirmations
    action = await confirmations.find(caller, action_id)
    return await shown_action(request, caller, action, "en")


@router.post("/trading:resume")
async def resume(request: Request, body: ResumeBody, caller: Confirmer) -> dict[str, Any]:
    """Let trading go on; takes the scope to confirm, and the etag of the state that was seen."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.control.ResumeTrading(
        control_pb.ResumeTradingRequest(etag=body.etag),
        metadata=grants.confirmation(
            caller,
            pending_action_id=RESUME_ACTION_ID,
            action_hash=body.etag,
            decision=Decision.CONFIRM,
        ),
        timeout=READ_SECONDS,
    )
    return as_json(response)


@router.post("/trading:adopt")
async def adopt(request: Request, caller: Admin) -> dict[str, Any]:
    """Go on with books that were restored or copied."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.control.AdoptBooks(
        control_pb.AdoptBooksRequest(), metadata=grants.request(caller), timeout=READ_SECONDS
    )
    return as_json(response)


@router.post("/operations/{operation_id}:resolve")
async def resolve(
    request: Request, operation_id: str, body: ResolveBody, caller: Admin
) -> dict[str, Any]:
    """Settle with evidence an operation of which nobody has known for a day."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    response = await peers.control.ResolveOperation(
        control_pb.ResolveOperationRequest(
            operation_id=operation_id, was_executed=body.was_executed, evidence=body.evidence
        ),
        metadata=grants.request(caller),
        timeout=READ_SECONDS,
    )
    return as_json(response)
