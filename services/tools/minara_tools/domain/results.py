"""Tool results: one shape for the loop, the store and the audit."""

from typing import Any

from minara_core.actions import ActionState, PendingAction
from minara_core.reasons import DenialReason
from minara_core.tooling import (
    ToolCall,
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolOutcome,
    ToolPending,
    ToolResult,
    ToolSuccess,
    dump_json,
    err,
    ok,
    ok_json,
)
from minara_tools.domain.action_json import order_to_json, outcome_to_json, preview_to_json
from minara_tools.domain.outcomes import ToolCallBlockedError

MAX_ENVELOPE_BYTES = 24 * 1024
_NOTICE_BYTES = 1_024
_DENIALS = frozenset(DenialReason)


def result(call: ToolCall, outcome: ToolOutcome) -> ToolResult:
    """The call's result with the envelope that a model reads."""
    return ToolResult(
        tool_call_id=call.tool_call_id,
        name=call.name,
        outcome=outcome,
        envelope=envelope(outcome),
    )


def envelope(outcome: ToolOutcome) -> str:
    match outcome:
        case ToolSuccess():
            return ok_json(outcome.data_json)
        case ToolFailure() | ToolDenial():
            return err(f"{outcome.reason}: {outcome.message}")
        case ToolPending():
            return ok(_pending(outcome.action))
        case ToolDelegated():
            return ok({"state": "delegated"})


def denial(blocked: ToolCallBlockedError) -> ToolDenial:
    return ToolDenial(
        reason=blocked.reason,
        gate=blocked.gate,
        message=blocked.message,
        metadata=blocked.metadata,
    )


def capped(success: ToolSuccess, uri: str = "") -> tuple[ToolSuccess, str | None]:
    """The success within 24 KB, and the whole text when something was cut off.

    What is cut stays valid JSON: a notice, beginning and end of the data as text, and the `uri`
    where the whole is kept, if it is.
    """
    data = success.data_json
    if len(ok_json(data).encode()) <= MAX_ENVELOPE_BYTES:
        return success, None
    raw = data.encode()
    shown = {"is_cut": True, "notice": f"the result was {len(raw)} bytes; its middle is left out"}
    if uri:
        shown |= {"whole": uri, "how": "read_result reads the whole in parts"}
    keep = MAX_ENVELOPE_BYTES - _NOTICE_BYTES
    while True:
        begin = raw[: keep * 3 // 4].decode("utf-8", "ignore")
        end = raw[-(keep // 4) :].decode("utf-8", "ignore")
        cut = dump_json(shown | {"beginning": begin, "end": end})
        if len(ok_json(cut).encode()) <= MAX_ENVELOPE_BYTES:
            return ToolSuccess(data_json=cut, is_untrusted=success.is_untrusted), data
        keep = keep * 3 // 4


def decided(action: PendingAction) -> ToolResult:
    """What came of a decided action, as the result of the call that made it."""
    call = ToolCall(tool_call_id=action.tool_call_id, name=action.tool_name, arguments_json="")
    return result(call, _decided_outcome(action))


def _decided_outcome(action: PendingAction) -> ToolOutcome:
    outcome = action.outcome
    if outcome is None:
        return ToolPending(action=action)
    if action.state in {ActionState.FAILED, ActionState.VOIDED}:
        if outcome.reason in _DENIALS and action.state is ActionState.VOIDED:
            return ToolDenial(
                reason=DenialReason(outcome.reason),
                gate="confirm",
                message=outcome.message,
                metadata={"pending_action_id": action.pending_action_id},
            )
        return ToolFailure(reason=outcome.reason, message=outcome.message)
    data = outcome_to_json(outcome) | {"pending_action_id": action.pending_action_id}
    return ToolSuccess(data_json=dump_json(data), is_untrusted=False)


def _pending(action: PendingAction) -> dict[str, Any]:
    order = order_to_json(action.order)
    shown = ("mode", "venue", "side", "order_type", "quantity", "quantity_unit", "max_spend")
    preview = {name: order[name] for name in shown}
    preview |= {"instrument": action.order.instrument.symbol}
    preview |= {"max_spend_asset": action.order.max_spend_asset}
    return {
        "state": "pending_confirmation",
        "pending_action_id": action.pending_action_id,
        "preview": preview | preview_to_json(action.preview),
    }
