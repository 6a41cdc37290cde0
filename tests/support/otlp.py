"""A collector of the tests' own: takes spans and figures over OTLP/gRPC, or refuses them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import grpc.aio
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from minara_runtime import genai
from support.eventually import eventually

ERROR = 2
"""`Status.code` of a failed span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """One span as it came over the wire; ids in hex, no `parent_id` at a root."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    service: str
    instance: str
    resource: dict[str, Any]
    attributes: dict[str, Any]
    code: int
    text: str
    """The whole span as text, to search for what must not be in it."""

    @property
    def turn_id(self) -> str:
        return str(self.attributes.get(genai.TURN_ID, ""))


@dataclass
class Receiver:
    """`refusal` set: every export ends with that code. `is_silent`: none ends at all."""

    port: int = 0
    refusal: grpc.StatusCode | None = None
    is_silent: bool = False
    exports: int = 0
    figures: set[str] = field(default_factory=set[str])
    _spans: list[ReceivedSpan] = field(default_factory=list[ReceivedSpan])

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spans(self) -> tuple[ReceivedSpan, ...]:
        return tuple(self._spans)

    async def trace_of(
        self,
        turn_id: str,
        *,
        until: Callable[[Sequence[ReceivedSpan]], bool] = bool,
        timeout: float = 15.0,
    ) -> tuple[ReceivedSpan, ...]:
        """All spans of a turn's trace, once `until` is true of them."""

        def is_there() -> bool:
            return until(self._trace(turn_id))

        await eventually(is_there, timeout=timeout, every=0.05)
        return self._trace(turn_id)

    def _trace(self, turn_id: str) -> tuple[ReceivedSpan, ...]:
        trace_ids = {span.trace_id for span in self._spans if span.turn_id == turn_id}
        return tuple(span for span in self._spans if span.trace_id in trace_ids)

    async def answer(self, context: Any) -> None:
        self.exports += 1
        if self.is_silent:
            await asyncio.Event().wait()
        if self.refusal is not None:
            await context.abort(self.refusal, "not now")

    def take(self, request: ExportTraceServiceRequest) -> None:
        for of_resource in request.resource_spans:
            resource = _plain(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self._spans += [_received(span, resource) for span in of_scope.spans]


class _Traces(traces_grpc.TraceServiceServicer):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def Export(self, request: Any, context: Any) -> ExportTraceServiceResponse:
        await self._receiver.answer(context)
        self._receiver.take(request)
        return ExportTraceServiceResponse()


class _Metrics(metrics_grpc.MetricsServiceServicer):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def Export(self, request: Any, context: Any) -> ExportMetricsServiceResponse:
        await self._receiver.answer(context)
        told = cast("ExportMetricsServiceRequest", request)
        self._receiver.figures |= {
            metric.name
            for of_resource in told.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
        }
        return ExportMetricsServiceResponse()


@asynccontextmanager
async def a_receiver() -> AsyncGenerator[Receiver]:
    """A collector that listens while the body runs."""
    receiver = Receiver()
    server = grpc.aio.server()
    untyped: Any = (traces_grpc, metrics_grpc)
    untyped[0].add_TraceServiceServicer_to_server(_Traces(receiver), server)
    untyped[1].add_MetricsServiceServicer_to_server(_Metrics(receiver), server)
    receiver.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield receiver
    finally:
        await server.stop(0)


def _received(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        kind=span.kind,
        service=str(resource.get(genai.SERVICE_NAME, "")),
        instance=str(resource.get(genai.SERVICE_INSTANCE, "")),
        resource=resource,
        attributes=_plain(span.attributes),
        code=span.status.code,
        text=str(span),
    )


def _plain(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None
