"""Spans of tool calls, and bugs in the log under a reference id of which alone is told."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span

from minara_core.ids import IdSource, ToolCallId
from minara_runtime import genai, logging
from minara_runtime.telemetry import Telemetry


class SpanOfCall:
    """Implements CallSpan."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def tell(self, outcome: str, reason: str) -> None:
        self._span.set_attribute(genai.OUTCOME, outcome)
        if reason:
            self._span.set_attribute(genai.REASON, reason)


class CallTracing:
    """Implements Tracing."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    @contextmanager
    def tool_call(self, name: str, call_id: ToolCallId) -> Generator[SpanOfCall]:
        shown = name[:100]
        attributes = {
            genai.OPERATION_NAME: genai.EXECUTE_TOOL,
            genai.TOOL_NAME: shown,
            genai.TOOL_CALL_ID: call_id,
        }
        with self._telemetry.span(f"{genai.EXECUTE_TOOL} {shown}", attributes) as span:
            yield SpanOfCall(span)

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
