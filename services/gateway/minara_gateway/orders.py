"""`/v1/orders` and `/v1/manual-actions`: moves that a person fills in themselves, without a model.

Both only make a preview; the decision on it is `/v1/approvals`.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from minara.agent.v1 import tool_call_pb2 as call_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core.actions import PendingAction
from minara_core.errors import InternalError, Unavailable
from minara_core.ids import DIRECT_SESSION, IdSource, turn_id_for
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier, Scope
from minara_core.tooling import (
    ToolDenial,
    ToolFailure,
    ToolPending,
    ToolResult,
    ToolSuccess,
    dump_json,
)
from minara_gateway.auth import requires
from minara_gateway.bodies import CancelBody, ManualBody, OrderBody
from minara_gateway.chat import Key
from minara_gateway.confirmation import Confirmations
from minara_gateway.peers import CONFIRM_SECONDS, READ_SECONDS, GrantDesk, Peers
from minara_gateway.reply import as_json
from minara_gateway.showing import preview_of, receipt_of
from minara_gateway.store import Caller, GatewayStore
from minara_runtime import convert_enums as enums
from minara_runtime.convert import result_from_pb
from minara_runtime.convert_actions import action_to_pb

router = APIRouter(prefix="/v1")

CALL_ID = "1.0"

Reader = Annotated[Caller, Depends(requires(Scope.READ))]
Trader = Annotated[Caller, Depends(requires(Scope.TRADE))]
Confirmer = Annotated[Caller, Depends(requires(Scope.CONFIRM))]
Recent = Annotated[int, Query(ge=0, le=50)]


@router.get("/orders")
async def list_orders(request: Request, caller: Reader, recent: Recent = 20) -> dict[str, Any]:
    """The caller's open orders at the venue, and their latest moves. 503 without the venue."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    asked = tools_pb.ExecuteToolsRequest(
        context=grants.watch(caller, turn_id="", session_id=""),
        step=1,
        calls=[_call("get_orders", dump_json({"recent": recent}))],
    )
    updates = peers.tools.ExecuteTools(asked, timeout=READ_SECONDS)
    result = await _result_of(updates)
    if isinstance(result.outcome, ToolSuccess):
        return json.loads(result.outcome.data_json)
    raise Unavailable("the orders cannot be read right now; try again")


@router.post("/orders")
async def order(
    request: Request, body: OrderBody, caller: Trader, key: Key = "", language: str = "en"
) -> dict[str, Any]:
    """The preview of an order, or why there is none; the same one for the same Idempotency-Key."""
    return await _direct(request, body, caller, key, language)


@router.post("/orders:cancel")
async def cancel(
    request: Request, body: CancelBody, caller: Trader, key: Key = "", language: str = "en"
) -> dict[str, Any]:
    """The preview of the cancel of one open order, or why there is none."""
    return await _direct(request, body, caller, key, language)


@router.post("/manual-actions")
async def manual_action(
    request: Request, body: ManualBody, caller: Confirmer, language: str = "en"
) -> dict[str, Any]:
    """The preview of what only a person does by hand, or why there is none. The same `request_id`
    is the same action."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    ids: IdSource = request.app.state.ids
    response = await peers.control.RunManualAction(
        control_pb.RunManualActionRequest(
            tool_name=body.tool,
            arguments_json=dump_json(body.arguments),
            request_id=body.request_id or ids.new(),
        ),
        metadata=grants.request(caller),
        timeout=CONFIRM_SECONDS,
    )
    return await _answer(request, caller, result_from_pb(response.result), language=language)


async def shown_action(
    request: Request, caller: Caller, action: PendingAction, language: str
) -> dict[str, Any]:
    """An action with its preview, or with its receipt once it is decided; showing it counts as
    shown."""
    confirmations: Confirmations = request.app.state.confirmations
    store: GatewayStore = request.app.state.store
    document = as_json(action_to_pb(action))
    if action.outcome is not None or action.state.is_final:
        receipt = await receipt_of(confirmations, store, caller, action, language=language)
        return document | {"rendered_receipt": receipt}
    preview = await preview_of(confirmations, store, action, language=language)
    return document | {"rendered_preview": preview}


async def _direct(
    request: Request, body: OrderBody | CancelBody, caller: Caller, key: str, language: str
) -> dict[str, Any]:
    """A turn of one call and no model: the typed fields are the ask."""
    peers: Peers = request.app.state.peers
    grants: GrantDesk = request.app.state.grants
    ids: IdSource = request.app.state.ids
    turn_id = turn_id_for(caller.user_id, f"order:{key}") if key else ids.new()
    context = grants.turn(
        caller,
        turn_id=turn_id,
        session_id=f"{DIRECT_SESSION}{turn_id}",
        origin=Origin.HTTP,
        locale=language,
        message=body.sentence,
        tool_sets=("read", "trade"),
    )
    await peers.tools.OpenTurn(
        tools_pb.OpenTurnRequest(context=context, message=body.sentence), timeout=READ_SECONDS
    )
    try:
        updates = peers.tools.ExecuteTools(_asked(context, body), timeout=CONFIRM_SECONDS)
        result = await _result_of(updates)
    finally:
        await peers.tools.CloseTurn(
            tools_pb.CloseTurnRequest(context=context, is_completed=True), timeout=READ_SECONDS
        )
    return await _answer(request, caller, result, language=language)


def _asked(
    context: context_pb.TurnContext, body: OrderBody | CancelBody
) -> tools_pb.ExecuteToolsRequest:
    name, arguments = body.call
    return tools_pb.ExecuteToolsRequest(
        context=context,
        step=1,
        calls=[_call(name, dump_json(arguments))],
        stage=enums.STAGE.to_pb(LifecycleStage.DECIDE),
        callable_tools=[name],
        risk_ceiling=enums.TIER.to_pb(PermissionTier.ALWAYS_CONFIRM),
    )


def _call(name: str, arguments_json: str) -> call_pb.ToolCall:
    return call_pb.ToolCall(tool_call_id=CALL_ID, name=name, arguments_json=arguments_json)


async def _result_of(updates: Any) -> ToolResult:
    async for update in updates:
        if update.WhichOneof("update") == "result":
            return result_from_pb(update.result)
    raise InternalError("the tools service gave no result")


async def _answer(
    request: Request, caller: Caller, result: ToolResult, *, language: str
) -> dict[str, Any]:
    outcome = result.outcome
    match outcome:
        case ToolPending():
            # A call that is repeated was recorded with the action as it was then.
            confirmations: Confirmations = request.app.state.confirmations
            action = await confirmations.find(caller, outcome.action.pending_action_id)
            shown = await shown_action(request, caller, action, language)
            return {"pending_action": shown}
        case ToolDenial():
            return {
                "denial": {
                    "reason": str(outcome.reason),
                    "gate": outcome.gate,
                    "message": outcome.message,
                    "metadata": dict(outcome.metadata),
                }
            }
        case ToolFailure():
            return {"failure": {"reason": outcome.reason, "message": outcome.message}}
        case _:
            raise InternalError("a move came back as something else than a preview")
