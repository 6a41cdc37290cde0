"""A recorded call's outcome as JSON text. A pending action stands in it by its id alone."""

import json
from collections.abc import Mapping
from typing import Any

from minara_core.actions import PendingAction
from minara_core.ids import PendingActionId
from minara_core.reasons import DenialReason
from minara_core.tooling import (
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolOutcome,
    ToolPending,
    ToolSuccess,
    dump_json,
)


def outcome_to_text(outcome: ToolOutcome) -> str:
    match outcome:
        case ToolSuccess():
            stored: dict[str, Any] = {
                "kind": "success",
                "data_json": outcome.data_json,
                "is_untrusted": outcome.is_untrusted,
            }
        case ToolFailure():
            stored = {
                "kind": "failure",
                "reason": outcome.reason,
                "message": outcome.message,
                "reference_id": outcome.reference_id,
            }
        case ToolDenial():
            stored = {
                "kind": "denial",
                "reason": outcome.reason,
                "gate": outcome.gate,
                "message": outcome.message,
                "metadata": dict(outcome.metadata),
            }
        case ToolPending():
            stored = {"kind": "pending", "action": outcome.action.pending_action_id}
        case ToolDelegated():
            stored = {"kind": "delegated"}
    return dump_json(stored)


def pending_action_in(text: str) -> PendingActionId | None:
    """The id of the action that a recorded outcome stands for."""
    stored = json.loads(text)
    return PendingActionId(stored["action"]) if stored["kind"] == "pending" else None


def outcome_from_text(text: str, actions: Mapping[PendingActionId, PendingAction]) -> ToolOutcome:
    """`actions` holds at least the one that `pending_action_in` names."""
    stored = json.loads(text)
    match stored["kind"]:
        case "success":
            return ToolSuccess(data_json=stored["data_json"], is_untrusted=stored["is_untrusted"])
        case "failure":
            return ToolFailure(
                reason=stored["reason"],
                message=stored["message"],
                reference_id=stored["reference_id"],
            )
        case "denial":
            return ToolDenial(
                reason=DenialReason(stored["reason"]),
                gate=stored["gate"],
                message=stored["message"],
                metadata=stored["metadata"],
            )
        case "pending":
            return ToolPending(action=actions[PendingActionId(stored["action"])])
        case _:
            return ToolDelegated()
