"""`/v1/approvals`: what waits for a person, and their decision on it."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from minara_core.actions import Decision, PendingAction
from minara_core.errors import MinaraError
from minara_core.taxonomy import Scope
from minara_gateway.auth import requires
from minara_gateway.bodies import CodeBody, DecisionBody
from minara_gateway.confirmation import Confirmations
from minara_gateway.orders import shown_action
from minara_gateway.rendering import is_in_chat
from minara_gateway.reply import as_json
from minara_gateway.showing import receipt_of
from minara_gateway.store import Caller, GatewayStore
from minara_gateway.turns import RunningTurn, Turns
from minara_runtime.convert_actions import action_to_pb
from minara_runtime.logging import get_logger

router = APIRouter(prefix="/v1")

TELL_SECONDS = 3.0
"""How long a decision waits for the turn that tells it to begin."""

Reader = Annotated[Caller, Depends(requires(Scope.READ))]
Confirmer = Annotated[Caller, Depends(requires(Scope.CONFIRM))]


@router.get("/approvals")
async def list_pending(
    request: Request, caller: Reader, session_id: str = "", language: str = "en"
) -> dict[str, Any]:
    """Undecided actions with their previews, newest first; listing them shows them."""
    confirmations: Confirmations = request.app.state.confirmations
    actions = await confirmations.pending(caller, session_id)
    return {
        "pending_actions": [
            await shown_action(request, caller, action, language) for action in actions
        ],
    }


@router.get("/approvals/{pending_action_id}")
async def get_pending(
    request: Request, pending_action_id: str, caller: Reader, language: str = "en"
) -> dict[str, Any]:
    """One action with its preview, or with its receipt once it is decided."""
    confirmations: Confirmations = request.app.state.confirmations
    action = await confirmations.find(caller, pending_action_id)
    return await shown_action(request, caller, action, language)


@router.post("/approvals/{pending_action_id}:confirm")
async def confirm(
    request: Request, pending_action_id: str, body: DecisionBody, caller: Confirmer
) -> dict[str, Any]:
    """Do exactly what was shown, once; answers with the receipt and the turn that tells it."""
    return await _decide(request, caller, pending_action_id, body.action_hash, Decision.CONFIRM)


@router.post("/approvals/{pending_action_id}:reject")
async def reject(
    request: Request, pending_action_id: str, body: DecisionBody, caller: Confirmer
) -> dict[str, Any]:
    """Reject for good."""
    return await _decide(request, caller, pending_action_id, body.action_hash, Decision.REJECT)


@router.post("/approvals:confirmByCode")
async def confirm_by_code(request: Request, body: CodeBody, caller: Confirmer) -> dict[str, Any]:
    """Confirm the action whose preview shows this code."""
    return await _decide_by_code(request, caller, body, Decision.CONFIRM)


@router.post("/approvals:rejectByCode")
async def reject_by_code(request: Request, body: CodeBody, caller: Confirmer) -> dict[str, Any]:
    """Reject the action whose preview shows this code."""
    return await _decide_by_code(request, caller, body, Decision.REJECT)


async def _decide_by_code(
    request: Request, caller: Caller, body: CodeBody, decision: Decision
) -> dict[str, Any]:
    confirmations: Confirmations = request.app.state.confirmations
    action = await confirmations.find_by_code(caller, body.code, body.session_id)
    return await _decide(request, caller, action.pending_action_id, action.action_hash, decision)


async def _decide(
    request: Request, caller: Caller, pending_action_id: str, action_hash: str, decision: Decision
) -> dict[str, Any]:
    confirmations: Confirmations = request.app.state.confirmations
    store: GatewayStore = request.app.state.store
    action = await confirmations.decide(caller, pending_action_id, action_hash, decision)
    turn_id = await _tell(request, caller, action) if is_in_chat(action) else ""
    receipt = await receipt_of(confirmations, store, caller, action, language="en")
    return as_json(action_to_pb(action)) | {"rendered_receipt": receipt, "turn_id": turn_id}


async def _tell(request: Request, caller: Caller, action: PendingAction) -> str:
    """Start the turn that tells the decision in its session; it runs on by itself.

    The decision stands whatever comes of this: with the orchestrator dead the id is empty, and the
    session's next turn tells the outcome.
    """
    turns: Turns = request.app.state.turns
    running = turns.tell_decision(caller, action, language="en")
    try:
        async with asyncio.timeout(TELL_SECONDS):
            await anext(running.events)
    except (MinaraError, TimeoutError, StopAsyncIteration):
        get_logger("gateway/approvals").warning("decision_not_told", turn_id=running.turn_id)
        return ""
    background: set[asyncio.Task[None]] = request.app.state.background
    task = asyncio.create_task(_run_on(running))
    background.add(task)
    task.add_done_callback(background.discard)
    return running.turn_id


async def _run_on(running: RunningTurn) -> None:
    try:
        async for _ in running.events:
            pass
    except MinaraError as error:
        get_logger("gateway/approvals").warning(
            "turn_left", turn_id=running.turn_id, reason=error.reason
        )
