"""Run the calls of one step: remote ones in one batch, the loop's own tools here."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from minara_core.actions import PendingAction
from minara_core.clock import Clock
from minara_core.errors import DeadlineExceeded, MinaraError, Unavailable
from minara_core.events import ToolCallFinished, ToolCallProgressed, ToolCallStarted
from minara_core.ids import ToolCallId
from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.tooling import (
    ToolCall,
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolPending,
    ToolResult,
    ToolSuccess,
    err,
)
from minara_core.untrusted import marker_id, wrap
from minara_orchestrator.app.local_tools import LocalOutcome, LocalTools
from minara_orchestrator.app.open_turn import OpenedTurn
from minara_orchestrator.app.ports import Emit, ToolBatch, ToolFinished, ToolProgress, Tools
from minara_orchestrator.domain.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """Results in the model's order, as one message, and what they mean for the turn."""

    message: Message
    pending_actions: tuple[PendingAction, ...]
    has_question: bool
    newly_callable: tuple[str, ...]


@dataclass(slots=True)
class _Collected:
    results: dict[ToolCallId, ToolResult] = field(default_factory=dict[ToolCallId, ToolResult])
    local: list[LocalOutcome] = field(default_factory=list[LocalOutcome])


class ToolRunner:
    def __init__(self, tools: Tools, local_tools: LocalTools, clock: Clock) -> None:
        self._tools = tools
        self._local_tools = local_tools
        self._clock = clock

    async def run(
        self,
        turn: Turn,
        opened: OpenedTurn,
        batch: ToolBatch,
        emit: Emit,
        *,
        within_budget: int,
    ) -> BatchOutcome:
        """Run a step's calls; every call gets exactly one result, whatever happens."""
        collected = _Collected()
        for call in batch.calls:
            emit(
                ToolCallStarted(
                    tool_call_id=call.tool_call_id,
                    name=call.name,
                    arguments_json=call.arguments_json,
                )
            )

        def finish(result: ToolResult, duration_ms: int = 0) -> None:
            collected.results[result.tool_call_id] = result
            emit(ToolCallFinished(result=result, duration_ms=duration_ms))

        affordable = replace(batch, calls=batch.calls[:within_budget])
        if affordable.calls:
            await self._run_remote(turn, opened, affordable, emit, finish, collected)
        for call in batch.calls:
            if call.tool_call_id not in collected.results:
                finish(_missing(call, is_over_budget=call not in affordable.calls))
        return _outcome(turn, batch.calls, collected)

    async def _run_remote(
        self,
        turn: Turn,
        opened: OpenedTurn,
        batch: ToolBatch,
        emit: Emit,
        finish: Callable[[ToolResult, int], None],
        collected: _Collected,
    ) -> None:
        calls = {call.tool_call_id: call for call in batch.calls}
        try:
            async for update in self._tools.execute(turn.context, batch):
                match update:
                    case ToolProgress():
                        emit(
                            ToolCallProgressed(
                                tool_call_id=ToolCallId(update.tool_call_id),
                                message=update.message,
                                fraction=update.fraction,
                            )
                        )
                    case ToolFinished(result=result) if isinstance(result.outcome, ToolDelegated):
                        local = await self._local_tools.run(
                            turn, opened, calls[result.tool_call_id]
                        )
                        collected.local.append(local)
                        finish(local.result, update.duration_ms)
                    case ToolFinished():
                        finish(update.result, update.duration_ms)
        except (Unavailable, DeadlineExceeded) as error:
            for call in batch.calls:
                if call.tool_call_id not in collected.results:
                    finish(_unavailable(call, error), 0)


def _outcome(turn: Turn, calls: tuple[ToolCall, ...], collected: _Collected) -> BatchOutcome:
    results = [collected.results[call.tool_call_id] for call in calls]
    return BatchOutcome(
        message=Message(
            role=Role.TOOL, blocks=tuple(_result_block(turn, result) for result in results)
        ),
        pending_actions=tuple(
            result.outcome.action for result in results if isinstance(result.outcome, ToolPending)
        ),
        has_question=any(local.is_question for local in collected.local),
        newly_callable=tuple(name for local in collected.local for name in local.callable_tools),
    )


def _result_block(turn: Turn, result: ToolResult) -> ToolResultBlock:
    outcome, text = result.outcome, result.envelope
    if isinstance(outcome, ToolSuccess) and outcome.is_untrusted:
        marker = marker_id(turn.context.turn_id, result.tool_call_id)
        text = wrap(text, source=f"tool:{result.name}", marker=marker)
    return ToolResultBlock(
        tool_call_id=result.tool_call_id,
        envelope=text,
        is_error=isinstance(outcome, ToolDenial | ToolFailure),
    )


def _missing(call: ToolCall, *, is_over_budget: bool) -> ToolResult:
    if is_over_budget:
        message = "the turn's budget of tool calls is used up; conclude with what you have"
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
    return _failure(call, ErrorReason.INTERNAL, "the tools service gave no result for this call")


def _unavailable(call: ToolCall, error: MinaraError) -> ToolResult:
    return _failure(call, error.reason, "the tools service does not answer")


def _failure(call: ToolCall, reason: str, message: str) -> ToolResult:
    return ToolResult(
        tool_call_id=call.tool_call_id,
        name=call.name,
        outcome=ToolFailure(reason=reason, message=message),
        envelope=err(f"{reason}: {message}"),
    )
