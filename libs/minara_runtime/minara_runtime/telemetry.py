"""Spans: one trace per turn across all services, at the borders rather than per message."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
)
from opentelemetry.trace import (
    TracerProvider as AnyProvider,
)
from opentelemetry.util.types import AttributeValue

from minara_core.errors import MinaraError
from minara_runtime import genai
from minara_runtime.settings import Settings
from minara_runtime.span_file import FileSpanExporter

SPAN_FILE = "traces/spans.ndjson"
"""Under `data_dir`."""

_SCOPE = "minara"


class Telemetry:
    """Makes spans. Holds its own provider; no global one is ever set."""

    def __init__(self, provider: AnyProvider) -> None:
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer(_SCOPE)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: Context | None = None,
    ) -> Generator[Span]:
        """A span that is current inside the block, a child of `parent` or of the current one.

        An exception marks it as failed by the exception's type and reason; no text is kept.
        """
        span = self._tracer.start_span(name, parent, kind, attributes)
        token = attach(trace.set_span_in_context(span))
        try:
            yield span
        except BaseException as error:
            mark_failed(span, error)
            raise
        finally:
            detach(token)
            span.end()

    def flush(self) -> None:
        """Write what is still held in memory, so that it can be read back at once."""
        if isinstance(self._provider, TracerProvider):
            self._provider.force_flush()

    def close(self) -> None:
        """Flush and stop the exporter's thread."""
        if isinstance(self._provider, TracerProvider):
            self._provider.shutdown()


def configure(
    settings: Settings, service_name: str, *, exporter: SpanExporter | None = None
) -> Telemetry:
    """Telemetry of a process: spans to `data_dir`, and to `otlp_endpoint` when it is set.

    A given `exporter` (tests) takes the place of both and gets each span as it ends.
    """
    provider = TracerProvider(
        resource=Resource({"service.name": service_name}), shutdown_on_exit=False
    )
    if exporter is not None:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        return Telemetry(provider)
    file = FileSpanExporter(settings.data_dir / SPAN_FILE)
    provider.add_span_processor(BatchSpanProcessor(file, schedule_delay_millis=1_000))
    if settings.otlp_endpoint is not None:
        provider.add_span_processor(BatchSpanProcessor(_otlp(settings.otlp_endpoint)))
    return Telemetry(provider)


def disabled() -> Telemetry:
    """Telemetry whose spans go nowhere and cost next to nothing."""
    return Telemetry(trace.NoOpTracerProvider())


def mark_failed(span: Span, error: BaseException) -> None:
    """Mark a span as failed by an error's type and reason."""
    if not span.is_recording():
        return
    span.set_status(Status(StatusCode.ERROR))
    span.set_attribute(genai.ERROR_TYPE, type(error).__name__)
    if isinstance(error, MinaraError):
        span.set_attribute(genai.REASON, error.reason.value)


def _otlp(endpoint: str) -> SpanExporter:
    # Imported when asked for: it costs a tenth of a second at every start.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"))
