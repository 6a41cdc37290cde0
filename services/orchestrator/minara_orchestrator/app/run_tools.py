"""Run the calls of one step: remote ones in one batch, the loop's own tools here."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType

from minara_core.actions import PendingAction
from minara_core.errors import MinaraError
from minara_core.events import ToolCallFinished, ToolCallProgressed, ToolCallStarted
from minara_core.ids import ToolCallId
from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.tooling import (
    ToolCall,
    ToolDefinition,
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolPending,
    ToolResult,
    ToolSuccess,
)
from minara_core.untrusted import marker_id, wrap
from minara_orchestrator.app import tool_outcomes
from minara_orchestrator.app.local_tools import SUBAGENT, LocalOutcome, LocalTools
from minara_orchestrator.app.ports import ToolBatch, ToolFinished, ToolProgress, Tools
from minara_orchestrator.app.progress import Progress
from minara_orchestrator.app.stop_signal import TurnStopped
from minara_orchestrator.app.turn_ports import TurnLink
from minara_orchestrator.domain.model_policy import reading_tools
from minara_orchestrator.domain.turn import ELSEWHERE, Turn


def changes_nothing(definitions: Iterable[ToolDefinition], batch: ToolBatch) -> bool:
    """Whether all calls only read, so that the step can be done again by asking the model again.

    A sub-agent makes calls of its own.
    """
    names = tuple(call.name for call in batch.calls)
    return SUBAGENT not in names and reading_tools(definitions, names) == names


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """Results in the model's order, as one message, and what they mean for the turn."""

    message: Message
    pending_actions: tuple[PendingAction, ...]
    has_question: bool
    newly_callable: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Running:
    """One batch while it runs. When the turn ends by a bug in it, no call is left open."""

    turn: Turn
    so_far: Progress
    link: TurnLink
    results: dict[ToolCallId, ToolResult] = field(default_factory=dict[ToolCallId, ToolResult])
    delegated: list[ToolCallId] = field(default_factory=list[ToolCallId])
    local: list[LocalOutcome] = field(default_factory=list[LocalOutcome])

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_bug = isinstance(error, Exception) and not isinstance(error, MinaraError)
        if not is_bug or self.so_far.parent:
            return
        for call in reversed(self.so_far.open_calls.values()):
            parent, _, _ = call.tool_call_id.rpartition("/")
            result = tool_outcomes.broken(call)
            self.link.emit(ToolCallFinished(result=result, parent_tool_call_id=parent))

    def start(self, call: ToolCall) -> None:
        self.so_far.open_calls[call.tool_call_id] = call
        self.link.emit(
            ToolCallStarted(
                tool_call_id=call.tool_call_id,
                name=call.name,
                arguments_json=call.arguments_json,
            )
        )

    def finish(self, result: ToolResult, duration_ms: int = 0) -> None:
        self.results[result.tool_call_id] = result
        self.so_far.open_calls.pop(result.tool_call_id, None)
        self.link.emit(ToolCallFinished(result=result, duration_ms=duration_ms))

    def open_of(self, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """Those without a result."""
        return tuple(call for call in calls if call.tool_call_id not in self.results)

    def finish_open(
        self, calls: Iterable[ToolCall], outcome: Callable[[ToolCall], ToolResult]
    ) -> None:
        for call in self.open_of(calls):
            self.finish(outcome(call))


class ToolRunner:
    def __init__(self, tools: Tools, local_tools: LocalTools) -> None:
        self._tools = tools
        self._local_tools = local_tools

    async def run(
        self,
        turn: Turn,
        so_far: Progress,
        batch: ToolBatch,
        link: TurnLink,
        *,
        within_budget: int,
    ) -> BatchOutcome:
        """Run a step's calls; every call gets exactly one result, whatever happens.

        A turn that is to stop waits for calls that may change something, and for no others. Raises
        Conflict (LEASE_LOST, EPOCH_STALE) when another process has the session now, which tells how
        the calls end; a bug goes on once they are told to have failed.
        """
        running = _Running(turn=turn, so_far=so_far, link=link)
        for call in batch.calls:
            running.start(call)
        # By this whoever takes the turn over knows under which numbers calls may have gone out.
        await link.step_stored(batch.step - 1)
        # What was told of a sub-agent before a take-over stands: another would say other things.
        told = link.past.told.sub_agent_results
        for call in batch.calls:
            if call.tool_call_id in told:
                running.finish(told[call.tool_call_id])
        affordable = replace(batch, calls=running.open_of(batch.calls[:within_budget]))
        with running, suppress(TurnStopped):
            await self._run_affordable(running, affordable)
        running.finish_open(batch.calls[within_budget:], tool_outcomes.over_budget)
        is_stopped = link.stop.requested is not None
        lost = tool_outcomes.stopped if is_stopped else tool_outcomes.missing
        running.finish_open(batch.calls, lost)
        return _outcome(turn, batch.calls, running)

    async def _run_affordable(self, running: _Running, batch: ToolBatch) -> None:
        if not batch.calls:
            return
        so_far, stop = running.so_far, running.link.stop
        is_breakable = changes_nothing(so_far.prompt.definitions, batch)
        if is_breakable or (stop.requested is not None and not so_far.awaited_calls):
            async with stop.breaking():
                await self._run_remote(running, batch)
        else:
            await self._run_remote(running, batch)
        await self._run_local(running, batch)

    async def _run_remote(self, running: _Running, batch: ToolBatch) -> None:
        try:
            async for update in self._tools.execute(running.turn.context, batch):
                match update:
                    case ToolProgress():
                        running.link.emit(
                            ToolCallProgressed(
                                tool_call_id=ToolCallId(update.tool_call_id),
                                message=update.message,
                                fraction=update.fraction,
                            )
                        )
                    case ToolFinished(result=result) if isinstance(result.outcome, ToolDelegated):
                        running.delegated.append(result.tool_call_id)
                    case ToolFinished():
                        running.finish(update.result, update.duration_ms)
        except MinaraError as error:
            if error.reason in ELSEWHERE:
                raise
            for call in running.open_of(batch.calls):
                if call.tool_call_id not in running.delegated:
                    running.finish(tool_outcomes.refused(call, error))

    async def _run_local(self, running: _Running, batch: ToolBatch) -> None:
        """An error of one call is its failure. A bug cuts off the others, and so does it that
        another process has the session now."""
        calls = [call for call in batch.calls if call.tool_call_id in running.delegated]

        async def run(call: ToolCall) -> None:
            try:
                local = await self._local_tools.run(
                    running.turn, running.so_far, call, running.link, among=len(calls)
                )
            except MinaraError as error:
                if error.reason in ELSEWHERE:
                    raise
                result = tool_outcomes.failure(call, error.reason, error.message)
                local = LocalOutcome(result=result)
            running.local.append(local)
            running.finish(local.result)

        try:
            async with running.so_far.slot.lent(), asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(run(call))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None


def _outcome(turn: Turn, calls: tuple[ToolCall, ...], running: _Running) -> BatchOutcome:
    results = [running.results[call.tool_call_id] for call in calls]
    return BatchOutcome(
        message=Message(
            role=Role.TOOL, blocks=tuple(_result_block(turn, result) for result in results)
        ),
        pending_actions=tuple(
            result.outcome.action for result in results if isinstance(result.outcome, ToolPending)
        ),
        has_question=any(local.is_question for local in running.local),
        newly_callable=tuple(name for local in running.local for name in local.callable_tools),
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
