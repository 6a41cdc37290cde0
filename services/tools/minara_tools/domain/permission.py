"""What a turn may do at most, and whether one call runs, asks a person, or is denied.

Everything the orchestrator says (stage, risk ceiling, tool sets) can only lower the result; person,
origin and trading state come from the grant and our own tables (safety.md §1).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from minara_core.reasons import DenialReason
from minara_core.taxonomy import (
    DEFAULT_CEILING_STAGE,
    STAGE_CEILING,
    LifecycleStage,
    Origin,
    PermissionTier,
    TradingState,
)
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.tool_sets import BUILTIN_TOOL_SETS

GATE = "permission"
MANUAL_ROUTE = "POST /v1/manual-actions"

AUTOMATIC = frozenset(
    {Origin.GOAL, Origin.CRON, Origin.EVENT, Origin.WORKFLOW, Origin.AGENT, Origin.AUTOPILOT}
)
"""Turns that no message started."""

AUTOMATIC_TOOL_SETS = frozenset({"read", "memory", "web", "turn"})
DECISION_CLOSED_SETS = frozenset({"analysis", "research", "web"})
"""Not callable in the turn that tells a decision."""

MOVING_STAGES = frozenset({LifecycleStage.DECIDE, LifecycleStage.MANAGE})

_OPT_IN = frozenset({Origin.WORKFLOW, Origin.AGENT})
_ORIGIN_CEILING: Mapping[Origin, PermissionTier] = MappingProxyType(
    {
        origin: PermissionTier.CONFIRM_ONCE
        if origin in AUTOMATIC
        else PermissionTier.ALWAYS_CONFIRM
        for origin in Origin
    }
)


class Verdict(StrEnum):
    """RUN at once, or ASK: only a preview, which a person then confirms or rejects."""

    RUN = "run"
    ASK = "ask"


def origin_ceiling(origin: Origin, *, opted_in: bool) -> PermissionTier:
    """The most an origin allows; a run grant's opt-in lifts workflows and agents alone."""
    if opted_in and origin in _OPT_IN:
        return PermissionTier.ALWAYS_CONFIRM
    return _ORIGIN_CEILING[origin]


def turn_ceiling(
    *,
    origin: Origin,
    opted_in: bool,
    grant_ceiling: PermissionTier,
    trading_state: TradingState,
) -> PermissionTier:
    """What holds for the whole turn, before stage and skills lower it."""
    ceiling = min(origin_ceiling(origin, opted_in=opted_in), grant_ceiling)
    if trading_state is TradingState.HALTED:
        return min(ceiling, PermissionTier.CONFIRM_ONCE)
    return ceiling


def step_ceiling(
    turn: PermissionTier,
    *,
    stage: LifecycleStage | None,
    risk_ceiling: PermissionTier | None,
) -> PermissionTier:
    """The turn's ceiling lowered by stage and skills; a missing stage counts as `evaluate`."""
    lowered = min(turn, STAGE_CEILING[stage or DEFAULT_CEILING_STAGE])
    return lowered if risk_ceiling is None else min(lowered, risk_ceiling)


def allowed_tool_sets(
    *,
    origin: Origin,
    opted_in: bool,
    granted: Iterable[str],
    asked: Iterable[str],
    is_decision: bool,
) -> frozenset[str]:
    """What grant and context name both, with what those sets include, less what the origin or a
    decision turn closes."""
    sets = BUILTIN_TOOL_SETS.expand(granted) & BUILTIN_TOOL_SETS.expand(asked)
    if origin in AUTOMATIC and not (opted_in and origin in _OPT_IN):
        sets &= AUTOMATIC_TOOL_SETS
    return sets - DECISION_CLOSED_SETS if is_decision else sets


def decide(
    tier: PermissionTier,
    *,
    is_fund_moving: bool,
    origin: Origin,
    opted_in: bool,
    stage: LifecycleStage | None,
    ceiling: PermissionTier,
    say: str = "",
    card: str = "",
) -> Verdict:
    """Whether a call runs or asks; raises ToolCallBlockedError when it may do neither.

    `say` is the sentence by which a person would ask for this move; a denial by stage tells it.
    `card` names the form that a person fills in by hand; nothing that a model wrote is in it.
    """
    if tier is PermissionTier.MANUAL_ONLY:
        raise ToolCallBlockedError(
            DenialReason.MANUAL_ONLY,
            gate=GATE,
            message="only a person does this, by hand: never through a tool call",
            metadata={"card": card, "route": MANUAL_ROUTE} if card else {},
        )
    if is_fund_moving:
        _check_moving_stage(stage, say)
    if tier > ceiling:
        raise ToolCallBlockedError(
            DenialReason.TIER_EXCEEDS_CEILING,
            gate=GATE,
            message=f"this tool is {tier.name}; this turn may use {ceiling.name} at most",
            metadata={"tier": tier.name, "ceiling": ceiling.name},
        )
    if tier is PermissionTier.READ_ONLY and not is_fund_moving:
        return Verdict.RUN
    if is_fund_moving:
        return _ask(origin, opted_in=opted_in)
    if tier is PermissionTier.CONFIRM_ONCE and origin.is_human:
        return Verdict.RUN
    raise _confirmation_required(origin)


def _check_moving_stage(stage: LifecycleStage | None, say: str) -> None:
    if stage in MOVING_STAGES:
        return
    shown = (stage or DEFAULT_CEILING_STAGE).value
    raise ToolCallBlockedError(
        DenialReason.TIER_EXCEEDS_CEILING,
        gate=GATE,
        message=f"nobody asked for a move yet (stage {shown}); say: {say}"
        if say
        else f"nobody asked for a move yet (stage {shown})",
        metadata={"stage": shown} | ({"say": say} if say else {}),
    )


def _ask(origin: Origin, *, opted_in: bool) -> Verdict:
    if origin in AUTOMATIC and not (opted_in and origin in _OPT_IN):
        raise _confirmation_required(origin)
    return Verdict.ASK


def _confirmation_required(origin: Origin) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.CONFIRMATION_REQUIRED,
        gate=GATE,
        message=f"a person has to confirm this, and a turn of origin {origin.value} has none",
        metadata={"origin": origin.value},
    )
