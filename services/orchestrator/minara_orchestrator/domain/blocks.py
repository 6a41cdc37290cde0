"""What each block says. Finished bytes come from their owners; block 8 is made here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from minara_core.actions import PendingAction
from minara_core.money import canonical
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier, TradingState
from minara_core.tooling import dump_json
from minara_orchestrator.domain.prompt import PromptBlock

_HEARTBEAT_LIMIT = 600
"""Characters of HEARTBEAT.md in block 8, so that the block stays within 400 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What block 8 tells the model about this very turn."""

    now: datetime
    origin: Origin
    stage: LifecycleStage
    ceiling: PermissionTier
    trading_state: TradingState
    callable_tools: tuple[str, ...]
    active_skill_ids: tuple[str, ...]
    unavailable_tools: tuple[str, ...]
    heartbeat: str


def signal_block(signal: Signal, pending: Sequence[PendingAction]) -> PromptBlock:
    lines = [
        f"now: {signal.now:%Y-%m-%dT%H:%MZ}",
        f"origin: {signal.origin}",
        f"stage: {signal.stage}; risk ceiling: {signal.ceiling.name}",
        f"trading state: {signal.trading_state}",
        f"skills active: {', '.join(signal.active_skill_ids) or 'none'}",
        f"tools callable this turn: {', '.join(signal.callable_tools) or 'none'}",
    ]
    if signal.unavailable_tools:
        lines.append(f"tools not working: {', '.join(signal.unavailable_tools)}")
    lines += [f"waits for the person: {action_line(action)}" for action in pending[:5]]
    if signal.heartbeat:
        lines.append(f"heartbeat:\n{signal.heartbeat[:_HEARTBEAT_LIMIT]}")
    return PromptBlock(number=8, key="signal", text="\n".join(lines))


def action_line(action: PendingAction) -> str:
    """What waits for the person, in one line that ends with its id."""
    order = action.order
    return (
        f"{action.tool_name} {order.side} {canonical(order.quantity)} "
        f"{order.instrument.base} on {order.venue} ({action.pending_action_id})"
    )


def outcome_block(action: PendingAction, *, is_decision: bool) -> PromptBlock:
    """A decided action's outcome as the tools service recorded it, as one line of JSON."""
    outcome = action.outcome
    facts: dict[str, str] = {
        "pending_action_id": action.pending_action_id,
        "tool": action.tool_name,
        "side": action.order.side,
        "instrument": action.order.instrument.symbol,
        "state": action.state,
    }
    if outcome is not None:
        facts |= {
            "message": outcome.message,
            "reason": outcome.reason,
            "filled_quantity": canonical(outcome.filled_quantity),
            "filled_asset": outcome.filled_asset,
            "average_price": canonical(outcome.average_price),
            "spent": canonical(outcome.spent),
            "spent_asset": outcome.spent_asset,
            "received": canonical(outcome.received),
            "received_asset": outcome.received_asset,
            "fee": canonical(outcome.fee),
            "fee_asset": outcome.fee_asset,
        }
    key = "decided_action" if is_decision else "action_outcome"
    return PromptBlock(number=8, key=key, text=dump_json(facts))
