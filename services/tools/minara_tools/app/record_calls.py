"""What a call leaves behind: its result, its audit row, and for money its tier event."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from minara_core.actions import PendingAction
from minara_core.audit import AuditKind
from minara_core.clock import Clock
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import (
    ToolCall,
    ToolOutcome,
    ToolPending,
    ToolResult,
    ToolSuccess,
    result_uri,
)
from minara_tools.app.observing import Tracing
from minara_tools.app.records import (
    CONFIRMED_BY_MESSAGE,
    action_record,
    call_event,
    call_record,
    shown_name,
)
from minara_tools.app.stores import CallStore, FinishedCall, ParkedCall, StartedCall
from minara_tools.domain import approvals, results
from minara_tools.domain.boundary import marks_turn
from minara_tools.domain.ledger import TurnLedger
from minara_tools.domain.registry import ToolEntry


def arguments_hash(call: ToolCall) -> str:
    """What a call of the same id must have again: its name and the exact text of its arguments."""
    return hashlib.sha256(f"{call.name}\x1f{call.arguments_json}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CallRecorder:
    calls: CallStore
    clock: Clock
    tracing: Tracing

    async def start(self, ledger: TurnLedger, call: ToolCall) -> bool:
        """Note on disk that a call begins; false when it began before."""
        return ledger.is_request or await self.calls.start(self._started(ledger, call))

    async def finish(
        self,
        ledger: TurnLedger,
        entry: ToolEntry | None,
        call: ToolCall,
        outcome: ToolOutcome,
        *,
        duration_ms: int,
    ) -> ToolResult:
        """The result as it is told, once it is durable."""
        whole: str | None = None
        if isinstance(outcome, ToolSuccess):
            # Of a single read outside any turn nothing is kept.
            is_kept = not ledger.is_request
            uri = result_uri(ledger.turn_id, call.tool_call_id) if is_kept else ""
            outcome, whole = results.capped(outcome, uri)
        result = results.result(call, outcome)
        if ledger.is_request:
            await self.note(ledger, call, result)
            return result
        await self.calls.finish(
            self._finished(ledger, entry, call, result, duration_ms=duration_ms, whole=whole)
        )
        return result

    async def park(
        self,
        ledger: TurnLedger,
        entry: ToolEntry,
        call: ToolCall,
        action: PendingAction,
        *,
        duration_ms: int,
    ) -> ToolResult:
        """Store the action with its call. Raises ToolCallBlockedError when it may not wait."""
        now = self.clock.now()

        def plan(neighbours: Sequence[PendingAction]) -> ParkedCall:
            parking = approvals.parked(
                action, neighbours, by_later_message=ledger.has_human_message, now=now
            )
            result = results.result(call, ToolPending(action=parking.action))
            return ParkedCall(
                parking=parking,
                finished=self._finished(
                    ledger, entry, call, result, duration_ms=duration_ms, whole=None
                ),
                audits=tuple(
                    action_record(
                        old, AuditKind.STATE_CHANGE, now=now, trace_id=self.tracing.trace_id()
                    )
                    for old in parking.superseded
                ),
            )

        stored = await self.calls.park(ledger.user_id, now - approvals.DUPLICATE_WINDOW, plan)
        return stored.finished.result

    async def note(self, ledger: TurnLedger, call: ToolCall, result: ToolResult) -> None:
        """Audit a call without storing its result."""
        await self.calls.note(
            call_record(
                ledger, call, result, now=self.clock.now(), trace_id=self.tracing.trace_id()
            )
        )

    def _started(self, ledger: TurnLedger, call: ToolCall) -> StartedCall:
        return StartedCall(
            turn_id=ledger.turn_id,
            tool_call_id=call.tool_call_id,
            tool_name=shown_name(call),
            arguments_hash=arguments_hash(call),
            time=self.clock.now(),
        )

    def _finished(
        self,
        ledger: TurnLedger,
        entry: ToolEntry | None,
        call: ToolCall,
        result: ToolResult,
        *,
        duration_ms: int,
        whole: str | None,
    ) -> FinishedCall:
        now, trace_id = self.clock.now(), self.tracing.trace_id()
        is_success = isinstance(result.outcome, ToolSuccess)
        event = None
        if entry is not None and entry.is_fund_moving:
            event = call_event(ledger, entry, result, now=now, trace_id=trace_id)
        return FinishedCall(
            started=self._started(ledger, call),
            result=result,
            duration_ms=duration_ms,
            marks_turn=is_success and entry is not None and marks_turn(entry),
            whole_json=whole,
            audit=call_record(
                ledger,
                call,
                result,
                now=now,
                trace_id=trace_id,
                confirmed_by=_confirmed_by(entry) if is_success else "",
            ),
            tier_event=event,
        )


def _confirmed_by(entry: ToolEntry | None) -> str:
    if entry is not None and entry.permission_tier is PermissionTier.CONFIRM_ONCE:
        return CONFIRMED_BY_MESSAGE
    return ""
