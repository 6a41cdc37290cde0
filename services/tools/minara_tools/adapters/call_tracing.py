"""Spans of tool calls, and bugs in the log under a reference id of which alone is told."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from minara_core.ids import IdSource
from minara_core.tooling import ToolCall
from minara_runtime import genai, logging
from minara_runtime.redaction import redact
from minara_runtime.spans import mark_failed_as
from minara_runtime.telemetry import Telemetry
from minara_tools.domain.outcomes import ToolCallBlockedError

MOST_CONTENT = 16_384
"""Characters of arguments in a span, where spans may hold content at all."""


class SpanOfCall:
    """Implements CallSpan."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def tell(self, outcome: str, reason: str = "", gate: str = "") -> None:
        self._span.set_attribute(genai.OUTCOME, outcome)
        if reason:
            self._span.set_attribute(genai.REASON, reason)
        if gate:
            self._span.set_attribute(genai.GATE, gate)
        if outcome == "failed":
            mark_failed_as(self._span, reason)


class CallTracing:
    """Implements Tracing."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    @contextmanager
    def tool_call(self, call: ToolCall, *, is_known: bool) -> Generator[SpanOfCall]:
        # A model may write anything for a name, what it was told in confidence too.
        shown = call.name if is_known else genai.OTHER
        attributes: dict[str, AttributeValue] = {
            genai.OPERATION_NAME: genai.EXECUTE_TOOL,
            genai.TOOL_NAME: shown,
            genai.TOOL_CALL_ID: call.tool_call_id,
        }
        if self._telemetry.has_content:
            attributes[genai.TOOL_ARGUMENTS] = redact(call.arguments_json)[:MOST_CONTENT]
        with self._telemetry.span(f"{genai.EXECUTE_TOOL} {shown}", attributes) as span:
            yield SpanOfCall(span)

    @contextmanager
    def part(self, name: str) -> Generator[SpanOfCall]:
        denied: ToolCallBlockedError | None = None
        with self._telemetry.span(name) as span:
            told = SpanOfCall(span)
            try:
                yield told
            except ToolCallBlockedError as blocked:
                told.tell("denied", str(blocked.reason), blocked.gate)
                denied = blocked  # raised behind the span: a denial is no error
        if denied is not None:
            raise denied

    def trace_id(self) -> str:
        context = trace.get_current_span().get_span_context()
        return f"{context.trace_id:032x}" if context.is_valid else ""


class BugLog:
    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._log = logging.get_logger("tools")

    def report(self, error: Exception, place: str) -> str:
        """Log what broke at a place; the reference id to tell."""
        reference = self._ids.new()
        self._log.error("tool_broke", reference_id=reference, place=place, exc_info=error)
        return reference
