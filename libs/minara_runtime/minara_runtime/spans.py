"""A span of ours: OpenTelemetry's interface, and on the path of a turn no dearer than a dictionary.

The SDK's own span takes locks and copies and checks every attribute, which a turn of a few
milliseconds feels. What a span becomes is decided after its end, elsewhere.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextvars import Token
from types import TracebackType
from typing import Self

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue
from typing_extensions import override

from minara_core.errors import MinaraError
from minara_runtime import genai

SpanSink = Callable[["RecordedSpan"], None]
"""Takes a span that has ended; must not block."""

_RATIO_BITS = 64
_RATIO_MASK = (1 << _RATIO_BITS) - 1


class SpanMaker:
    """Makes the spans of one process and hands each to `sink` when it ends.

    A span without a parent begins a trace, which is marked as sampled when its id falls into the
    share `sample` (0 to 1); every other span takes over the mark of its parent.
    """

    def __init__(self, sink: SpanSink, *, sample: float = 1.0) -> None:
        self._sink = sink
        self._bound = round(sample * (1 << _RATIO_BITS))
        self._ids = RandomIdGenerator()
        self._sampled = TraceFlags(TraceFlags.SAMPLED)
        self._unsampled = TraceFlags(TraceFlags.DEFAULT)

    def make(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue] | None,
        kind: SpanKind,
        parent: Context | None,
    ) -> "RecordedSpan":
        """A span that starts now; it is current and ends with a `with` block."""
        above = trace.get_current_span(parent).get_span_context()
        if above.is_valid:
            trace_id, flags = above.trace_id, above.trace_flags
        else:
            above, trace_id = None, self._ids.generate_trace_id()
            flags = self._sampled if trace_id & _RATIO_MASK < self._bound else self._unsampled
        context = SpanContext(trace_id, self._ids.generate_span_id(), False, flags)
        return RecordedSpan(name, context, above, kind, dict(attributes or ()), self._sink)


class RecordedSpan(Span):
    """One span. Attributes are the caller's word: nothing checks or bounds them here."""

    def __init__(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: dict[str, AttributeValue],
        sink: SpanSink,
    ) -> None:
        self.name = name
        self.context = context
        self.parent = parent
        self.kind = kind
        self.attributes = attributes
        self.has_failed = False
        self.end_ns = 0
        self._sink = sink
        self._token: Token[Context] | None = None
        self.start_ns = time.time_ns()

    @override
    def __enter__(self) -> Self:
        self._token = attach(trace.set_span_in_context(self))
        return self

    @override
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if isinstance(exc_val, asyncio.CancelledError | GeneratorExit):
            self.attributes.setdefault(genai.OUTCOME, "cancelled")  # nobody's fault
        elif exc_val is not None:
            mark_failed(self, exc_val)
        if self._token is not None:
            detach(self._token)
        self.end()

    @override
    def end(self, end_time: int | None = None) -> None:
        if not self.end_ns:
            self.end_ns = end_time or time.time_ns()
            self._sink(self)

    @override
    def get_span_context(self) -> SpanContext:
        return self.context

    @override
    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self.attributes[key] = value

    @override
    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        self.attributes.update(attributes)

    @override
    def is_recording(self) -> bool:
        return not self.end_ns

    @override
    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        code = status.status_code if isinstance(status, Status) else status
        self.has_failed = code is StatusCode.ERROR

    @override
    def update_name(self, name: str) -> None:
        self.name = name

    @override
    def add_event(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Nothing: what a turn says is in its events, which are stored."""

    @override
    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, AttributeValue] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        mark_failed(self, exception)


def mark_failed(span: Span, error: BaseException) -> None:
    """Mark a span as failed by an error's type and reason; its text is kept nowhere."""
    if not span.is_recording():
        return
    span.set_status(StatusCode.ERROR)
    span.set_attribute(genai.ERROR_TYPE, type(error).__name__)
    if isinstance(error, MinaraError):
        span.set_attribute(genai.REASON, str(error.reason))


def mark_failed_as(span: Span, reason: str) -> None:
    """Mark a span as failed by a reason code, where no exception passes by."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute(genai.ERROR_TYPE, reason)
    span.set_attribute(genai.REASON, reason)


def readable(span: RecordedSpan, resource: Resource) -> ReadableSpan:
    """A finished span as the SDK's exporters take it."""
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=resource,
        attributes=span.attributes,
        kind=span.kind,
        status=Status(StatusCode.ERROR if span.has_failed else StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )
