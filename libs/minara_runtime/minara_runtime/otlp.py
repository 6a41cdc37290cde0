"""Spans and metrics to a collector over OTLP/gRPC. A collector that is away costs nothing but them.

Plain calls instead of the SDK's exporter, which sleeps through its retries in the thread that
exports and says so in the log each time.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from typing_extensions import override

from minara_runtime.logging import get_logger
from minara_runtime.spans import RecordedSpan, readable

CAPACITY = 8_192
"""Spans that wait for a collector at most; beyond it the oldest go."""
BATCH = 512
CALL_SECONDS = 5.0
LAST_CALL_SECONDS = 0.8
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


class Collector:
    """A channel to `http(s)://host:port` (or `host:port`, with TLS). One warning per outage."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        options = [("grpc.enable_retries", 0)]
        if parts.scheme == "http":
            channel = grpc.insecure_channel(parts.netloc, options)
        else:
            credentials = grpc.ssl_channel_credentials()
            channel = grpc.secure_channel(parts.netloc, credentials, options)
        self._channel = channel
        self._endpoint = endpoint
        self._traces: Any = TraceServiceStub(channel)  # untyped
        self._metrics: Any = MetricsServiceStub(channel)  # untyped
        self._is_away = False
        self._seconds = CALL_SECONDS

    def export_spans(self, request: object) -> bool:
        """Whether the collector took them."""
        return self._export(self._traces.Export, request)

    def export_metrics(self, request: object) -> bool:
        """Whether the collector took them."""
        return self._export(self._metrics.Export, request)

    def hurry(self) -> None:
        """From here on nothing waits long: the process ends."""
        self._seconds = LAST_CALL_SECONDS

    def close(self) -> None:
        """Cut what is still under way."""
        self._channel.close()

    def _export(self, call: Any, request: object) -> bool:
        try:
            call(request, timeout=self._seconds)
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed
            if not self._is_away:
                self._is_away = True
                get_logger("telemetry").warning(
                    "collector_away", endpoint=self._endpoint, code=_code(error)
                )
            return False
        if self._is_away:
            self._is_away = False
            get_logger("telemetry").info("collector_back", endpoint=self._endpoint)
        return True


class OtlpSpans:
    """Implements SpanTaker: sends the sampled spans, from a thread of its own."""

    def __init__(
        self, collector: Collector, resource: Resource, *, capacity: int = CAPACITY
    ) -> None:
        self._collector = collector
        self._resource = resource
        self._waiting: deque[RecordedSpan] = deque(maxlen=capacity)
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, spans: Sequence[RecordedSpan]) -> None:
        self._waiting.extend(span for span in spans if span.context.trace_flags.sampled)

    def flush(self) -> None:
        if self._waiting and self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="otlp", daemon=True)
            self._thread.start()
        self._wake.set()

    def close(self) -> None:
        self._collector.hurry()
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(LAST_CALL_SECONDS)
            self._collector.close()
            self._thread.join(LAST_CALL_SECONDS)

    def _serve(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._closing.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._send_waiting():
                if self._closing.wait(pause):
                    break
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                pause = FIRST_PAUSE_SECONDS
        self._send_waiting()

    def _send_waiting(self) -> bool:
        """Send batches until none is left; False at the first that is not taken, which is kept."""
        while batch := self._batch():
            request = encode_spans([readable(span, self._resource) for span in batch])
            if not self._collector.export_spans(request):
                room = (self._waiting.maxlen or 0) - len(self._waiting)
                self._waiting.extendleft(reversed(batch[len(batch) - min(room, len(batch)) :]))
                return False
        return True

    def _batch(self) -> list[RecordedSpan]:
        batch: list[RecordedSpan] = []
        while self._waiting and len(batch) < BATCH:
            batch.append(self._waiting.popleft())
        return batch


class OtlpMetrics(MetricExporter):
    """Where a periodic reader hands its figures; those of a failed export go with the next."""

    def __init__(self, collector: Collector) -> None:
        super().__init__()
        self._collector = collector

    @override
    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        taken = self._collector.export_metrics(encode_metrics(metrics_data))
        return MetricExportResult.SUCCESS if taken else MetricExportResult.FAILURE

    @override
    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    @override
    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._collector.hurry()


def _code(error: Exception) -> str:
    return error.code().name if isinstance(error, grpc.Call) else type(error).__name__
