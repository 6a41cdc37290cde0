"""Pending actions that no tool call made: a person's own, and those that follow from another."""

from collections.abc import Sequence
from dataclasses import dataclass

from minara_core.actions import PendingAction
from minara_core.audit import AuditKind
from minara_core.clock import Clock
from minara_tools.app.observing import Tracing
from minara_tools.app.records import action_event, action_record
from minara_tools.app.stores import ActionStore, ParkedAction
from minara_tools.domain import approvals
from minara_tools.domain.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class ActionParking:
    actions: ActionStore
    registry: ToolRegistry
    clock: Clock
    tracing: Tracing

    async def park(self, action: PendingAction) -> PendingAction:
        """Store it, in the place of an open one for the same move. Raises ToolCallBlockedError
        (RATE_LIMITED) when it may not wait."""
        now = self.clock.now()

        def plan(neighbours: Sequence[PendingAction]) -> ParkedAction:
            parking = approvals.parked(action, neighbours, by_later_message=True, now=now)
            entry = self.registry.entries.get(action.tool_name)
            trace_id = self.tracing.trace_id()
            return ParkedAction(
                parking=parking,
                audits=tuple(
                    action_record(one, AuditKind.STATE_CHANGE, now=now, trace_id=trace_id)
                    for one in (*parking.superseded, parking.action)
                ),
                tier_event=action_event(
                    parking.action,
                    int(entry.permission_tier) if entry else 0,
                    now=now,
                    trace_id=trace_id,
                ),
            )

        since = now - approvals.DUPLICATE_WINDOW
        stored = await self.actions.park(action.user_id, since, plan)
        return stored.parking.action
