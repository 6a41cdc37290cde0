"""Results of calls that the tools service gave none for, and of those that run in the loop."""

from typing import Any

from minara_core.errors import DeadlineExceeded, MinaraError, Unavailable
from minara_core.ids import ToolCallId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.tooling import (
    ToolCall,
    ToolDenial,
    ToolFailure,
    ToolResult,
    ToolSuccess,
    dump_json,
    err,
    ok,
)

INTERRUPTED = "INTERRUPTED"
_CONCLUDE = "conclude with what you have"
_AWAY = "the tools service does not answer"


def over_budget(call: ToolCall) -> ToolResult:
    """The turn has no calls left."""
    message = f"the turn's budget of tool calls is used up; {_CONCLUDE}"
    return ToolResult(
        tool_call_id=call.tool_call_id,
        name=call.name,
        outcome=ToolDenial(
            reason=DenialReason.BUDGET_EXCEEDED,
            gate="budget",
            message=message,
            metadata={"budget": "max_tool_calls"},
        ),
        envelope=err(f"{DenialReason.BUDGET_EXCEEDED}: {message}"),
    )


def missing(call: ToolCall) -> ToolResult:
    """The tools service ended its answer without this call."""
    return failure(call, ErrorReason.INTERNAL, "the tools service gave no result for this call")


def refused(call: ToolCall, error: MinaraError) -> ToolResult:
    """The tools service does not take the call, or cannot work."""
    is_away = isinstance(error, Unavailable | DeadlineExceeded)
    return failure(call, error.reason, _AWAY if is_away else error.message)


def broken(call: ToolCall) -> ToolResult:
    """The turn ends by a bug."""
    return failure(call, ErrorReason.INTERNAL, "something broke while this call was under way")


def nothing_to_share(call: ToolCall) -> ToolResult:
    """What the turn has left does not pay a sub-agent."""
    message = f"the turn's budget leaves nothing for a sub-agent; {_CONCLUDE}"
    return failure(call, DenialReason.BUDGET_EXCEEDED, message)


def stopped(call: ToolCall) -> ToolResult:
    """The turn was stopped while the call, which changes nothing, was under way."""
    return failure(call, INTERRUPTED, "the turn was stopped before this call had its result")


def cut_off(call_id: ToolCallId, name: str) -> ToolResult:
    """The process that had sent the call ended, and nothing was kept of its step."""
    call = ToolCall(tool_call_id=call_id, name=name, arguments_json="{}")
    return failure(call, INTERRUPTED, "the process that waited for this call ended")


def failure(call: ToolCall, reason: str, message: str) -> ToolResult:
    """It broke."""
    return ToolResult(
        tool_call_id=call.tool_call_id,
        name=call.name,
        outcome=ToolFailure(reason=reason, message=message),
        envelope=err(f"{reason}: {message}"),
    )


def success(call: ToolCall, data: dict[str, Any]) -> ToolResult:
    """It ran in the loop."""
    return ToolResult(
        tool_call_id=call.tool_call_id,
        name=call.name,
        outcome=ToolSuccess(data_json=dump_json(data), is_untrusted=False),
        envelope=ok(data),
    )
