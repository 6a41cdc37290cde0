"""The audit rows and tier events that use cases write with what they record."""

from datetime import datetime

from minara_core.actions import PendingAction
from minara_core.audit import AuditKind, AuditRecord
from minara_core.tooling import (
    ToolCall,
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolOutcome,
    ToolPending,
    ToolResult,
    dump_json,
)
from minara_tools.app.stores import TierEvent
from minara_tools.domain.action_json import outcome_to_json
from minara_tools.domain.ledger import TurnLedger
from minara_tools.domain.registry import ToolEntry

CONFIRMED_BY_MESSAGE = "message"


def shown_name(call: ToolCall) -> str:
    """A called name as it is stored: short and printable, whatever a model wrote."""
    return "".join(c if c.isprintable() else "?" for c in call.name[:100])


def outcome_name(outcome: ToolOutcome) -> str:
    match outcome:
        case ToolDenial():
            return "denied"
        case ToolFailure():
            return "failed"
        case ToolPending():
            return "pending"
        case ToolDelegated():
            return "delegated"
        case _:
            return "success"


def reason_of(outcome: ToolOutcome) -> str:
    return str(outcome.reason) if isinstance(outcome, ToolDenial | ToolFailure) else ""


def gate_of(outcome: ToolOutcome) -> str:
    return outcome.gate if isinstance(outcome, ToolDenial) else ""


def call_record(
    ledger: TurnLedger,
    call: ToolCall,
    result: ToolResult,
    *,
    now: datetime,
    trace_id: str,
    confirmed_by: str = "",
) -> AuditRecord:
    """One row for every call; denials are of a kind of their own."""
    outcome = result.outcome
    payload: dict[str, object] = {
        "tool_call_id": call.tool_call_id,
        "arguments": call.arguments_json[:65_536],
        "result": result.envelope,
    }
    if confirmed_by:
        payload["confirmed_by"] = confirmed_by
    if isinstance(outcome, ToolDenial):
        payload |= {"gate": outcome.gate, "metadata": dict(outcome.metadata)}
    if isinstance(outcome, ToolFailure) and outcome.reference_id:
        payload["reference_id"] = outcome.reference_id
    return AuditRecord(
        user_id=ledger.user_id,
        kind=AuditKind.DENIAL if isinstance(outcome, ToolDenial) else AuditKind.TOOL_CALL,
        time=now,
        subject=shown_name(call),
        outcome=outcome_name(outcome),
        reason=reason_of(outcome),
        turn_id=None if ledger.is_request else ledger.turn_id,
        session_id=None if ledger.is_request else ledger.session_id,
        trace_id=trace_id,
        origin=ledger.origin.value,
        payload_json=dump_json(payload),
    )


def call_event(
    ledger: TurnLedger,
    entry: ToolEntry,
    result: ToolResult,
    *,
    now: datetime,
    trace_id: str,
) -> TierEvent:
    """The row of a fund-moving call: previewed, denied or failed."""
    outcome = result.outcome
    action_id = outcome.action.pending_action_id if isinstance(outcome, ToolPending) else ""
    return TierEvent(
        user_id=ledger.user_id,
        session_id=ledger.session_id,
        turn_id=ledger.turn_id,
        tool_call_id=result.tool_call_id,
        tool_name=entry.name,
        permission_tier=int(entry.permission_tier),
        event=outcome_name(outcome),
        reason=reason_of(outcome),
        pending_action_id=action_id,
        origin=ledger.origin.value,
        trace_id=trace_id,
        time=now,
    )


def action_record(
    action: PendingAction, kind: AuditKind, *, now: datetime, trace_id: str
) -> AuditRecord:
    """The row of a decision on an action, or of what came of it."""
    outcome = action.outcome
    payload: dict[str, object] = {
        "tool": action.tool_name,
        "tool_call_id": action.tool_call_id,
        "action_hash": action.action_hash,
    }
    if outcome is not None:
        payload["outcome"] = outcome_to_json(outcome)
    return AuditRecord(
        user_id=action.user_id,
        kind=kind,
        time=now,
        subject=action.pending_action_id,
        outcome=action.state.value,
        reason=outcome.reason if outcome else "",
        turn_id=action.turn_id,
        session_id=action.session_id,
        trace_id=trace_id,
        origin=action.origin,
        payload_json=dump_json(payload),
    )


def action_event(action: PendingAction, tier: int, *, now: datetime, trace_id: str) -> TierEvent:
    """The row of a fund move's decision or outcome."""
    return TierEvent(
        user_id=action.user_id,
        session_id=action.session_id,
        turn_id=action.turn_id,
        tool_call_id=action.tool_call_id,
        tool_name=action.tool_name,
        permission_tier=tier,
        event=action.state.value,
        reason=action.outcome.reason if action.outcome else "",
        pending_action_id=action.pending_action_id,
        origin=action.origin,
        trace_id=trace_id,
        time=now,
    )
