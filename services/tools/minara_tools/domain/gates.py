"""The gates themselves. `GATES` is their final order (safety.md §1)."""

from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier, TradingState
from minara_tools.domain import permission
from minara_tools.domain.boundary import check_boundary
from minara_tools.domain.call_paths import DEEPEST, depth
from minara_tools.domain.hooks import BeforeToolCallHook, GateInput
from minara_tools.domain.intent import (
    REJECTIONS_IN_A_ROW,
    asks_for_a_move,
    check_intent,
    named_move,
)
from minara_tools.domain.ledger import MAX_TOOL_CALLS
from minara_tools.domain.local_tools import ALWAYS_CALLABLE, FOR_THE_TURN_ALONE
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.permission import Verdict
from minara_tools.domain.registry import ToolEntry


def known_tool(given: GateInput) -> None:
    if given.entry is None:
        raise ToolCallBlockedError(
            DenialReason.TOOL_UNKNOWN,
            gate="known_tool",
            message="there is no tool of this name",
            metadata={"tool": given.call.name[:100]},
        )


def arguments_valid(given: GateInput) -> None:
    """What only a person may call is denied as that, whatever a model wrote into it."""
    if given.entry is not None and given.entry.permission_tier is PermissionTier.MANUAL_ONLY:
        return
    if given.refused_arguments is not None:
        raise given.refused_arguments


def available(given: GateInput) -> None:
    needs = _entry(given).check()
    if needs is not None:
        raise ToolCallBlockedError(
            DenialReason.TOOL_UNAVAILABLE,
            gate="available",
            message=f"this tool does not work here: {needs}",
            metadata={"needs": needs},
        )


def grant_valid(given: GateInput) -> None:
    ledger = given.ledger
    if not ledger.is_open:
        raise ToolCallBlockedError(
            DenialReason.GRANT_INVALID,
            gate="grant_valid",
            message="this turn is over, or was never opened",
            metadata={"turn_id": ledger.turn_id},
        )
    if ledger.is_request and _entry(given).permission_tier is not PermissionTier.READ_ONLY:
        raise ToolCallBlockedError(
            DenialReason.GRANT_INVALID,
            gate="grant_valid",
            message="outside a turn only READ_ONLY tools run",
        )


def subagent_allowed(given: GateInput) -> None:
    """A sub-agent reads: it moves nothing, asks nobody, and does not nest without end."""
    entry, level = _entry(given), depth(given.call.tool_call_id)
    if not level:
        return
    is_turns_own = entry.name in FOR_THE_TURN_ALONE
    is_too_strong = entry.is_fund_moving or entry.permission_tier > PermissionTier.CONFIRM_ONCE
    is_too_deep = entry.name == "subagent" and level >= DEEPEST
    if is_turns_own or is_too_strong or is_too_deep:
        raise ToolCallBlockedError(
            DenialReason.SUBAGENT_FORBIDDEN,
            gate="subagent",
            message="a sub-agent may not call this; say in your answer what is needed",
            metadata={"tool": entry.name},
        )


def trading_state(given: GateInput) -> None:
    """HALTED previews nothing but what a person may close with; what it and REDUCING let through is
    judged on the resolved order."""
    entry, ledger = _entry(given), given.ledger
    is_closing = entry.may_exit and ledger.origin.is_human
    is_halted = ledger.trading_state is TradingState.HALTED
    if entry.is_fund_moving and is_halted and not is_closing:
        raise ToolCallBlockedError(
            DenialReason.TRADING_HALTED,
            gate="trading_state",
            message="trading is halted; a person may resume it",
        )


def tool_set_allowed(given: GateInput) -> None:
    tool_set = _entry(given).tool_set
    if tool_set not in given.ledger.tool_sets:
        raise ToolCallBlockedError(
            DenialReason.TOOL_SET_NOT_ALLOWED,
            gate="tool_set",
            message=f"this turn may not use tool set {tool_set}",
            metadata={"tool_set": tool_set, "origin": given.ledger.origin.value},
        )


def tool_callable(given: GateInput) -> None:
    entry = _entry(given)
    if given.ledger.is_request or entry.name in ALWAYS_CALLABLE:
        return
    if entry.tool_set == "read" and entry.permission_tier is PermissionTier.READ_ONLY:
        return
    if entry.name not in given.selection.callable_tools:
        raise ToolCallBlockedError(
            DenialReason.TOOL_NOT_CALLABLE,
            gate="tool_callable",
            message="no active skill makes this tool callable; activate one that lists it",
            metadata={"tool": entry.name},
        )


def tier_within_ceiling(given: GateInput) -> None:
    verdict_of(given)


def analysis_trade_boundary(given: GateInput) -> None:
    check_boundary(_entry(given), verdict_of(given), given.ledger.read_sources)


def intent_fits(given: GateInput) -> None:
    if given.arguments is not None:
        check_intent(_entry(given), given.arguments, given.ledger.words)


def not_rejected_again(given: GateInput) -> None:
    """After two rejections in a row a person is not asked again before they ask themselves."""
    ledger = given.ledger
    is_pressing = ledger.was_rejected_again and not asks_for_a_move(ledger.human_messages)
    if _entry(given).is_fund_moving and is_pressing:
        raise ToolCallBlockedError(
            DenialReason.RATE_LIMITED,
            gate="rejections",
            message="the last previews were rejected; only a request of the person reopens this",
            metadata={"limit": str(REJECTIONS_IN_A_ROW)},
        )


def within_budget(given: GateInput) -> None:
    if given.ledger.calls_made >= MAX_TOOL_CALLS:
        raise ToolCallBlockedError(
            DenialReason.BUDGET_EXCEEDED,
            gate="budget",
            message=f"this turn has made {given.ledger.calls_made} tool calls",
            metadata={"budget": "tool_calls", "limit": str(MAX_TOOL_CALLS)},
        )


GATES: tuple[BeforeToolCallHook, ...] = (
    known_tool,
    arguments_valid,
    available,
    grant_valid,
    subagent_allowed,
    trading_state,
    tool_set_allowed,
    tool_callable,
    tier_within_ceiling,
    analysis_trade_boundary,
    intent_fits,
    not_rejected_again,
    within_budget,
)


def verdict_of(given: GateInput) -> Verdict:
    """Whether the call runs or asks. Raises ToolCallBlockedError when it may do neither."""
    entry, ledger = _entry(given), given.ledger
    move = None if given.arguments is None else named_move(entry, given.arguments)
    return permission.decide(
        entry.permission_tier,
        is_fund_moving=entry.is_fund_moving,
        origin=ledger.origin,
        opted_in=ledger.opted_in,
        stage=given.selection.stage,
        ceiling=ceiling_of(given),
        say=move.sentence if move else "",
        card=entry.name if entry.permission_tier is PermissionTier.MANUAL_ONLY else "",
    )


def ceiling_of(given: GateInput) -> PermissionTier:
    """What this step may do at most. A stop does not lower it for what may be an exit: whether it
    is one, the resolved order tells."""
    entry, ledger, selection = _entry(given), given.ledger, given.selection
    turn = permission.turn_ceiling(
        origin=ledger.origin,
        opted_in=ledger.opted_in,
        grant_ceiling=ledger.grant_ceiling,
        trading_state=TradingState.ACTIVE if entry.may_exit else ledger.trading_state,
    )
    return permission.step_ceiling(turn, stage=selection.stage, risk_ceiling=selection.risk_ceiling)


def _entry(given: GateInput) -> ToolEntry:
    if given.entry is None:
        raise LookupError("an unknown tool passed the first gate")
    return given.entry
