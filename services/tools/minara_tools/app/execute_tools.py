"""The dispatcher: gates in order, then run, then record; every call gets exactly one result."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from minara_core.clock import Clock, pause
from minara_core.errors import Conflict, MinaraError
from minara_core.ids import ToolCallId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import (
    Executor,
    ToolCall,
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolOutcome,
    ToolResult,
    ToolSuccess,
    dump_json,
)
from minara_tools.app.call_counts import CallCounts
from minara_tools.app.observing import GATES, PASSED, STAGES, ReportBug, Tracing
from minara_tools.app.preview_move import MoveCall, MovePreview
from minara_tools.app.record_calls import CallRecorder, arguments_hash
from minara_tools.app.records import gate_of, outcome_name, reason_of
from minara_tools.app.stores import RecordedCall, TurnStore
from minara_tools.domain import results
from minara_tools.domain.boundary import marks_turn
from minara_tools.domain.gates import ceiling_of, verdict_of
from minara_tools.domain.hooks import BeforeToolCallHook, GateInput, gate_input, pass_gates
from minara_tools.domain.intent import is_solicited, named_move
from minara_tools.domain.ledger import Selection, TurnLedger
from minara_tools.domain.outcomes import ToolCallBlockedError, ToolFailed
from minara_tools.domain.registry import ToolContext, ToolEntry, ToolRegistry

MAX_CONCURRENT = 8
ELSEWHERE_LOOKS = 40
ELSEWHERE_PAUSE_SECONDS = 0.1
INTERRUPTED = "INTERRUPTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The calls of one step. Their ids differ from each other."""

    ledger: TurnLedger
    recorded: Mapping[ToolCallId, RecordedCall]
    calls: tuple[ToolCall, ...]
    selection: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgressed:
    tool_call_id: ToolCallId
    message: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished:
    result: ToolResult
    duration_ms: int


CallUpdate = CallProgressed | CallFinished


@dataclass(slots=True)
class _Running:
    """One batch while it runs; the ledger moves on with each call."""

    batch: Batch
    ledger: TurnLedger
    tell: Callable[[CallUpdate], None]
    counts: CallCounts
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))

    def count(self) -> None:
        made = self.counts.add(self.ledger.turn_id, self.ledger.calls_made)
        self.ledger = replace(self.ledger, calls_made=made)

    def read(self, entry: ToolEntry | None, outcome: ToolOutcome) -> None:
        if entry is not None and isinstance(outcome, ToolSuccess) and marks_turn(entry):
            sources = tuple(sorted({*self.ledger.read_sources, entry.name}))
            self.ledger = replace(self.ledger, read_sources=sources)


class ToolDispatcher:
    """Runs batches. `hooks` are asked in their order before every call."""

    def __init__(
        self,
        registry: ToolRegistry,
        hooks: Sequence[BeforeToolCallHook],
        turns: TurnStore,
        recorder: CallRecorder,
        preview: MovePreview,
        *,
        clock: Clock,
        tracing: Tracing,
        report_bug: ReportBug,
    ) -> None:
        self._registry = registry
        self._hooks = tuple(hooks)
        self._turns = turns
        self._recorder = recorder
        self._preview = preview
        self._clock = clock
        self._tracing = tracing
        self._report_bug = report_bug
        self._counts = CallCounts()

    async def execute(self, batch: Batch) -> AsyncGenerator[CallUpdate]:
        """One CallFinished per call, in any order, each durable before it is yielded.

        Neighbouring READ_ONLY calls run together, every other one alone. Raises Unavailable when
        results cannot be recorded.
        """
        updates: asyncio.Queue[CallUpdate | None] = asyncio.Queue()
        running = _Running(
            batch=batch, ledger=batch.ledger, tell=updates.put_nowait, counts=self._counts
        )
        work = asyncio.create_task(self._work(running))
        work.add_done_callback(lambda _: updates.put_nowait(None))
        try:
            while (update := await updates.get()) is not None:
                yield update
            await work
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _work(self, running: _Running) -> None:
        for group in self._groups(running.batch.calls):
            if len(group) == 1:
                await self._run(running, group[0])
                continue
            async with asyncio.TaskGroup() as tasks:
                for call in group:
                    tasks.create_task(self._run(running, call))

    def _groups(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        groups: list[list[ToolCall]] = []
        was_read = False
        for call in calls:
            is_read = self._is_read(self._registry.entries.get(call.name))
            if is_read and was_read:
                groups[-1].append(call)
            else:
                groups.append([call])
            was_read = is_read
        return groups

    @staticmethod
    def _is_read(entry: ToolEntry | None) -> bool:
        return (
            entry is not None
            and entry.permission_tier is PermissionTier.READ_ONLY
            and not entry.is_fund_moving
        )

    async def _run(self, running: _Running, call: ToolCall) -> None:
        async with running.slots:
            begin = self._clock.monotonic()
            is_known = call.name in self._registry.entries
            with self._tracing.tool_call(call, is_known=is_known) as span:
                outcome = (result := await self._result(running, call, begin)).outcome
                span.tell(outcome_name(outcome), reason_of(outcome), gate_of(outcome))
            duration_ms = round((self._clock.monotonic() - begin) * 1_000)
            running.tell(CallFinished(result=result, duration_ms=duration_ms))

    async def _result(self, running: _Running, call: ToolCall, begin: float) -> ToolResult:
        entry = self._registry.entries.get(call.name)
        seen = running.batch.recorded.get(call.tool_call_id)
        if seen is not None and (seen.result is not None or not self._is_read(entry)):
            return await self._replayed(running, entry, call, seen, begin)
        given = await self._given(running, call)
        refusal = self._refusal(given)
        running.count()
        if refusal is not None or entry is None:
            refusal = refusal or self._broken_hook(LookupError(call.name))
            return await self._finish(running, entry, call, refusal, begin)
        if not self._is_read(entry) and not await self._recorder.start(running.ledger, call):
            return await self._awaited(running, call) or results.result(call, _interrupted())
        if entry.is_fund_moving:
            return await self._park(running, entry, given, begin)
        return await self._finish(
            running, entry, call, await self._outcome(running, entry, given), begin
        )

    async def _replayed(
        self,
        running: _Running,
        entry: ToolEntry | None,
        call: ToolCall,
        seen: RecordedCall,
        begin: float,
    ) -> ToolResult:
        if seen.arguments_hash != arguments_hash(call):
            # The recorded call keeps its row; this one is only answered and audited.
            result = results.result(call, _changed())
            await self._recorder.note(running.ledger, call, result)
            return result
        result = seen.result or await self._awaited(running, call)
        return result or await self._finish(running, entry, call, _interrupted(), begin)

    async def _awaited(self, running: _Running, call: ToolCall) -> ToolResult | None:
        """The result of a call that began elsewhere and may still be under way there: the same
        batch was sent twice. None when it does not come."""
        ledger = running.ledger
        for _ in range(ELSEWHERE_LOOKS):
            await pause(ELSEWHERE_PAUSE_SECONDS)
            known = await self._turns.find(ledger.turn_id, ledger.user_id, [call.tool_call_id])
            seen = known.recorded.get(call.tool_call_id) if known else None
            if seen is not None and seen.result is not None:
                return seen.result
        return None

    async def _given(self, running: _Running, call: ToolCall) -> GateInput:
        entry, ledger = self._registry.entries.get(call.name), running.ledger
        made = self._counts.made(ledger.turn_id, ledger.calls_made)
        running.ledger = replace(ledger, calls_made=made)
        if entry is not None and entry.is_fund_moving:
            trading = await self._turns.trading(running.ledger.user_id)
            running.ledger = replace(running.ledger, trading_state=trading.state)
        return gate_input(call, self._registry, running.ledger, running.batch.selection)

    def _refusal(self, given: GateInput) -> ToolDenial | None:
        with self._tracing.part(GATES) as span:
            try:
                pass_gates(self._hooks, given)
                span.tell(verdict_of(given).value)
            except ToolCallBlockedError as blocked:
                refusal = results.denial(blocked)
            except Exception as error:
                refusal = self._broken_hook(error)
            else:
                return None
            span.tell(outcome_name(refusal), refusal.reason, refusal.gate)
            return refusal

    def _broken_hook(self, error: Exception) -> ToolDenial:
        reference = self._report_bug(error, "gate")
        return ToolDenial(
            reason=DenialReason.HOOK_FAILED,
            gate="hook",
            message=f"a gate broke, so nothing ran; reference {reference}",
            metadata={"reference_id": reference},
        )

    async def _outcome(self, running: _Running, entry: ToolEntry, given: GateInput) -> ToolOutcome:
        if entry.executor is Executor.ORCHESTRATOR:
            return ToolDelegated()
        try:
            assert entry.handler is not None
            async with asyncio.timeout(entry.timeout_seconds):
                value = await entry.handler(given.arguments, _context(running, given))
            # Text from outside may hold surrogates, which neither the wire nor a store takes.
            data = dump_json(value).encode("utf-8", "replace").decode("utf-8")
            return ToolSuccess(data_json=data, is_untrusted=entry.untrusted_output)
        except Exception as error:
            return self._broken(error, entry)

    async def _park(
        self, running: _Running, entry: ToolEntry, given: GateInput, begin: float
    ) -> ToolResult:
        try:
            with self._tracing.part(STAGES) as span:
                action = await self._preview.action(_move_call(running, entry, given))
                span.tell(PASSED)
        except Exception as error:
            outcome = self._broken(error, entry)
            return await self._finish(running, entry, given.call, outcome, begin)
        try:
            return await self._recorder.park(
                running.ledger, entry, given.call, action, duration_ms=self._since(begin)
            )
        except ToolCallBlockedError as blocked:
            outcome = results.denial(blocked)
            return await self._finish(running, entry, given.call, outcome, begin)
        except Conflict as ended:
            told = await self._awaited(running, given.call)
            return told or results.result(given.call, self._broken(ended, entry))

    def _broken(self, error: Exception, entry: ToolEntry) -> ToolOutcome:
        match error:
            case ToolCallBlockedError():
                return results.denial(error)
            case ToolFailed() | MinaraError():
                return ToolFailure(reason=str(error.reason), message=error.message)
            case TimeoutError():
                return ToolFailure(
                    reason=ErrorReason.DEADLINE_EXCEEDED,
                    message=f"the tool took longer than {entry.timeout_seconds:g} s",
                )
            case _:
                reference = self._report_bug(error, entry.name)
                return ToolFailure(
                    reason=ErrorReason.INTERNAL,
                    message=f"the tool broke; reference {reference}",
                    reference_id=reference,
                )

    async def _finish(
        self,
        running: _Running,
        entry: ToolEntry | None,
        call: ToolCall,
        outcome: ToolOutcome,
        begin: float,
    ) -> ToolResult:
        result = await self._recorder.finish(
            running.ledger, entry, call, outcome, duration_ms=self._since(begin)
        )
        running.read(entry, outcome)
        return result

    def _since(self, begin: float) -> int:
        return round((self._clock.monotonic() - begin) * 1_000)


def _move_call(running: _Running, entry: ToolEntry, given: GateInput) -> MoveCall:
    assert given.arguments is not None
    ledger = given.ledger
    return MoveCall(
        entry=entry,
        arguments=given.arguments,
        context=_context(running, given),
        ceiling=ceiling_of(given),
        solicited=is_solicited(ledger.human_messages, named_move(entry, given.arguments)),
        read_sources=ledger.read_sources,
    )


def _context(running: _Running, given: GateInput) -> ToolContext:
    call_id = given.call.tool_call_id

    def progress(message: str, fraction: float) -> None:
        running.tell(
            CallProgressed(
                tool_call_id=call_id,
                message=message[:500],
                fraction=min(1.0, max(0.0, fraction)),
            )
        )

    return ToolContext(
        user_id=given.ledger.user_id,
        session_id=given.ledger.session_id,
        turn_id=given.ledger.turn_id,
        tool_call_id=call_id,
        origin=given.ledger.origin,
        progress=progress,
    )


def _changed() -> ToolDenial:
    return ToolDenial(
        reason=DenialReason.OPERATION_ARGUMENTS_CHANGED,
        gate="replay",
        message="a call of this id was made with other arguments",
    )


def _interrupted() -> ToolFailure:
    return ToolFailure(
        reason=INTERRUPTED,
        message="this call began before and its end is not known; look before you repeat it",
    )
