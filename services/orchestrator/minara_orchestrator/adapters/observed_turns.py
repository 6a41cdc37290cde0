"""Turns as others see them: an `invoke_agent` span each, figures, and how many wait."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from minara_core.events import (
    FinishReason,
    Payload,
    StepStarted,
    TextDelta,
    TokenUsage,
    ToolCallFinished,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UsageReported,
)
from minara_core.tooling import ToolDenial
from minara_orchestrator.app.stop_signal import StopSignal
from minara_orchestrator.app.turn_ports import TurnLink, TurnLoop
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Past
from minara_orchestrator.domain.turn import Turn
from minara_runtime import genai
from minara_runtime.figures import QUEUE, STEP_DURATION, Gauge, Labels
from minara_runtime.spans import mark_failed_as
from minara_runtime.telemetry import Telemetry

AGENT = "minara"

_Attributes: TypeAlias = dict[str, AttributeValue]


class ObservedLoop:
    """Implements TurnLoop around another one."""

    def __init__(self, loop: TurnLoop, telemetry: Telemetry) -> None:
        self._loop = loop
        self._telemetry = telemetry
        self._running = 0

    def queue(self, live: Callable[[], int]) -> Gauge:
        """How many turns run, and how many of the `live()` ones here wait for others."""

        def read() -> tuple[tuple[float, Labels], ...]:
            running = self._running
            waiting = max(0, live() - running)
            return (running, {genai.STATE: "running"}), (waiting, {genai.STATE: "waiting"})

        return Gauge(figure=QUEUE, read=read)

    async def run(self, turn: Turn, link: TurnLink) -> None:
        context = turn.context
        attributes: _Attributes = {
            genai.OPERATION_NAME: genai.INVOKE_AGENT,
            genai.AGENT_NAME: AGENT,
            genai.SESSION: context.session_id,
            genai.TURN_ID: context.turn_id,
            genai.SESSION_ID: context.session_id,
            genai.ORIGIN: context.origin.value,
        }
        with self._telemetry.span(f"{genai.INVOKE_AGENT} {AGENT}", attributes) as span:
            seen = _Seen(self._telemetry)
            self._running += 1
            try:
                await self._loop.run(turn, _SeenLink(link, seen))
            finally:
                self._running -= 1
                seen.put_on(span)


@dataclass(frozen=True, slots=True)
class _SeenLink:
    """Implements TurnLink: the same link, whose events are seen."""

    link: TurnLink
    seen: "_Seen"

    @property
    def past(self) -> Past:
        return self.link.past

    @property
    def stop(self) -> StopSignal:
        return self.link.stop

    @property
    def has_interjections(self) -> bool:
        return self.link.has_interjections

    def emit(self, payload: Payload) -> None:
        self.seen.take(payload)
        self.link.emit(payload)

    def keep(self, checkpoint: Checkpoint) -> None:
        self.link.keep(checkpoint)

    async def stored(self) -> None:
        await self.link.stored()

    async def step_stored(self, step: int) -> None:
        await self.link.step_stored(step)

    def take_interjections(self) -> Sequence[Interjection]:
        return self.link.take_interjections()

    async def close(self) -> None:
        await self.link.close()


@dataclass(slots=True)
class _Seen:
    """What a turn's events have said so far."""

    telemetry: Telemetry
    begin: float = field(default_factory=time.perf_counter)
    step_begin: float = 0.0
    steps: int = 0
    tool_calls: int = 0
    denials: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    attributes: _Attributes = field(default_factory=_Attributes)
    failure: str = ""

    def take(self, payload: Payload) -> None:
        match payload:
            case TextDelta():
                if genai.FIRST_TEXT not in self.attributes:
                    self.attributes[genai.FIRST_TEXT] = time.perf_counter() - self.begin
            case ToolCallFinished():
                self.tool_calls += 1
                self.denials += isinstance(payload.result.outcome, ToolDenial)
            case UsageReported():
                self.usage = self.usage.plus(payload.usage)
            case StepStarted():
                self._end_step()
                self.steps += 1
                self.step_begin = time.perf_counter()
            case TurnStarted() | TurnCompleted() | TurnFailed() | TurnCancelled():
                self._take_border(payload)
            case _:
                pass

    def _take_border(
        self, payload: TurnStarted | TurnCompleted | TurnFailed | TurnCancelled
    ) -> None:
        match payload:
            case TurnStarted():
                self.attributes[genai.PROVIDER_NAME] = payload.provider
                self.attributes[genai.REQUEST_MODEL] = payload.model
            case TurnCompleted():
                self._end_step()
                is_refused = payload.finish_reason is FinishReason.REFUSAL
                self.attributes[genai.OUTCOME] = "refused" if is_refused else "completed"
                self.attributes[genai.FINISH_REASON] = payload.finish_reason.value
            case TurnCancelled():
                self._end_step()
                self.attributes[genai.OUTCOME] = "cancelled"
            case TurnFailed():
                self._end_step()
                self.attributes[genai.OUTCOME] = "failed"
                self.failure = str(payload.reason)

    def _end_step(self) -> None:
        if self.step_begin:
            duration = time.perf_counter() - self.step_begin
            self.telemetry.metrics.record(STEP_DURATION, duration, {})
            self.step_begin = 0.0

    def put_on(self, span: Span) -> None:
        usage = self.usage
        span.set_attributes(
            self.attributes
            | {
                genai.STEPS: self.steps,
                genai.TOOL_CALLS: self.tool_calls,
                genai.DENIALS: self.denials,
                genai.INPUT_TOKENS: usage.input_tokens,
                genai.OUTPUT_TOKENS: usage.output_tokens,
                genai.CACHE_READ_TOKENS: usage.cache_read_tokens,
            }
        )
        if usage.cost_usd is not None:
            span.set_attribute(genai.COST_USD, str(usage.cost_usd))
        if self.failure:
            mark_failed_as(span, self.failure)
