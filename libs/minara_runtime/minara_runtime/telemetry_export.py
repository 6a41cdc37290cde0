"""What carries spans and figures out of the process: a collector, and a listener for Prometheus."""

import asyncio
from collections.abc import Callable

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from minara_runtime.loop_lag import LoopLag
from minara_runtime.metrics import Metrics
from minara_runtime.metrics_listener import MetricsListener
from minara_runtime.otlp import Collector, OtlpMetrics, OtlpSpans
from minara_runtime.settings import Settings
from minara_runtime.span_figures import SpanFigures
from minara_runtime.span_outlet import SpanTaker

OTLP_METRICS_MILLISECONDS = 15_000


class Exports:
    """Made of settings that ask for at least one of the two ways out."""

    def __init__(self, settings: Settings, resource: Resource) -> None:
        self._address = settings.metrics_address
        self._registry = CollectorRegistry()
        self._closers: list[Callable[[], None]] = []
        readers: list[MetricReader] = []
        senders: list[SpanTaker] = []
        if self._address is not None:
            readers.append(
                PrometheusMetricReader(scope_info_enabled=False, registry=self._registry)
            )
            ProcessCollector(registry=self._registry)
            GCCollector(registry=self._registry)
        if settings.otlp_endpoint is not None:
            collector = Collector(settings.otlp_endpoint)
            readers.append(
                PeriodicExportingMetricReader(
                    OtlpMetrics(collector), export_interval_millis=OTLP_METRICS_MILLISECONDS
                )
            )
            senders.append(OtlpSpans(collector, resource))
            self._closers.append(collector.hurry)
        self.metrics = Metrics(readers, resource)
        self.takers: tuple[SpanTaker, ...] = (SpanFigures(self.metrics), *senders)

    def listen(self, before: Callable[[], None], loop: asyncio.AbstractEventLoop | None) -> int:
        """Answer scrapes, each after `before`, and watch the loop; the port, or 0 when there are
        none to answer. Raises SettingsError."""
        port = 0
        if self._address is not None:
            listener = MetricsListener(self._address, self._registry, before)
            self._closers.append(listener.close)
            port = listener.port
        if loop is not None:
            self._closers.append(LoopLag(loop, self.metrics).close)
        return port

    def close(self) -> None:
        """Stop answering, and hand the last figures out; the takers are closed by their outlet."""
        for close in self._closers:
            close()
        self.metrics.close()
