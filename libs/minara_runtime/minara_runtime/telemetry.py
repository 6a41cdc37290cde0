"""Spans and figures of a process: one trace per turn across all services, at the borders rather
than per message."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import Span, SpanKind
from opentelemetry.util.types import AttributeValue

from minara_core.ids import RandomIds
from minara_runtime import genai
from minara_runtime.figures import SPANS_LOST
from minara_runtime.metrics import Metrics
from minara_runtime.settings import Settings
from minara_runtime.span_file import FileSpans
from minara_runtime.span_outlet import SpanOutlet, SpanTaker
from minara_runtime.spans import RecordedSpan, SpanMaker, SpanSink, readable

SPAN_FILE = "traces/spans.ndjson"
"""Under `data_dir`."""


class _NoSpan(AbstractContextManager[Span]):
    def __enter__(self) -> Span:
        return trace.INVALID_SPAN

    def __exit__(self, *raised: object) -> None:
        return None


def _nothing() -> None:
    """There is nothing to write or to close."""


class Telemetry:
    """Makes spans, and keeps the figures of the process as `metrics`. Sets nothing globally.

    `has_content` says whether spans may hold what people and models wrote (`log_content`);
    `metrics_port` is where `/metrics` is answered, 0 where it is not.
    """

    def __init__(
        self,
        maker: SpanMaker | None,
        metrics: Metrics | None = None,
        *,
        has_content: bool = False,
        flush: Callable[[], None] = _nothing,
        close: Callable[[], None] = _nothing,
    ) -> None:
        self._maker = maker
        self._no_span = _NoSpan()
        self.metrics: Metrics = metrics or Metrics()
        self.has_content = has_content
        self.metrics_port = 0
        self.flush = flush
        """Write what is still held in memory, so that it can be read back at once."""
        self._close = close

    def span(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: Context | None = None,
    ) -> AbstractContextManager[Span]:
        """A span that is current inside the block, a child of `parent` or of the current one.

        An exception marks it as failed by the exception's type and reason; no text is kept.
        """
        if self._maker is None:
            return self._no_span
        return self._maker.make(name, attributes, kind, parent)

    def close(self) -> None:
        """Flush and stop, within about two seconds, whatever a collector does."""
        close, self._close = self._close, _nothing
        close()


def configure(
    settings: Settings, service_name: str, *, exporter: SpanExporter | None = None
) -> Telemetry:
    """Telemetry of a process. Every span goes to `data_dir`; those of sampled traces also to
    `otlp_endpoint`, and figures there and to `metrics_address`, where these are set.

    A given `exporter` (tests) takes the place of all that and gets each span as it ends. Raises
    SettingsError when `metrics_address` cannot be listened on.
    """
    resource = resource_of(service_name)
    if exporter is not None:
        maker = SpanMaker(_exporting(exporter, resource), sample=settings.trace_sample)
        return Telemetry(maker, has_content=settings.log_content)
    if settings.otlp_endpoint is None and settings.metrics_address is None:
        return _telemetry(settings, Metrics(), [_file(settings, resource)], _nothing)
    # Imported when asked for: it costs a start some hundredths of a second.
    from minara_runtime.telemetry_export import Exports

    exports = Exports(settings, resource)
    takers = [_file(settings, resource), *exports.takers]
    made = _telemetry(settings, exports.metrics, takers, exports.close)
    try:
        made.metrics_port = exports.listen(made.flush, _running_loop())
    except BaseException:
        made.close()
        raise
    return made


def disabled() -> Telemetry:
    """Telemetry whose spans and figures go nowhere and cost next to nothing."""
    return Telemetry(None)


def _telemetry(
    settings: Settings,
    metrics: Metrics,
    takers: list[SpanTaker],
    close_exports: Callable[[], None],
) -> Telemetry:
    outlet = SpanOutlet(takers, on_lost=lambda lost: metrics.record(SPANS_LOST, lost, {}))

    def close() -> None:
        outlet.flush()  # the last figures are made of the last spans
        close_exports()
        outlet.close()

    return Telemetry(
        SpanMaker(outlet.put, sample=settings.trace_sample),
        metrics,
        has_content=settings.log_content,
        flush=outlet.flush,
        close=close,
    )


def _file(settings: Settings, resource: Resource) -> FileSpans:
    return FileSpans(settings.data_dir / SPAN_FILE, resource)


def _exporting(exporter: SpanExporter, resource: Resource) -> SpanSink:
    def sink(span: RecordedSpan) -> None:
        exporter.export([readable(span, resource)])

    return sink


def resource_of(service_name: str) -> Resource:
    """Who a process is: service, release, and an instance id of its own."""
    try:
        release = version("minara-runtime")
    except PackageNotFoundError:
        release = ""
    return Resource(
        {
            genai.SERVICE_NAME: service_name,
            genai.SERVICE_VERSION: release,
            genai.SERVICE_INSTANCE: RandomIds().new(),
        }
    )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
