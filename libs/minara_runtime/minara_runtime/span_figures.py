"""Figures made of finished spans, beside the path: what has a span is measured once, by it."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import cast

from opentelemetry.trace import SpanKind

from minara_runtime import figures, genai
from minara_runtime.figures import Gauge, Labels
from minara_runtime.metrics import Metrics
from minara_runtime.spans import RecordedSpan

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TOKEN_TYPES = (
    (genai.INPUT_TOKENS, "input"),
    (genai.OUTPUT_TOKENS, "output"),
    (genai.CACHE_READ_TOKENS, "cache_read"),
    (genai.CACHE_WRITE_TOKENS, "cache_write"),
)


class SpanFigures:
    """Implements SpanTaker."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._input_tokens = 0
        self._cached_tokens = 0
        self._by_operation: Mapping[object, Callable[[RecordedSpan], None]] = MappingProxyType(
            {
                genai.CHAT: self._take_chat,
                genai.EXECUTE_TOOL: self._take_tool,
                genai.INVOKE_AGENT: self._take_turn,
            }
        )
        metrics.watch([Gauge(figure=figures.CACHE_READ_RATIO, read=self._cache_read_ratio)])

    def take(self, spans: Sequence[RecordedSpan]) -> None:
        for span in spans:
            take = self._by_operation.get(span.attributes.get(genai.OPERATION_NAME))
            if take is not None:
                take(span)
            elif span.kind is SpanKind.SERVER:
                self._take_served(span)

    def flush(self) -> None:
        return

    def close(self) -> None:
        return

    def _take_served(self, span: RecordedSpan) -> None:
        found = span.attributes
        if genai.RPC_METHOD in found:
            labels = _labels(span, genai.RPC_METHOD, genai.RPC_RESPONSE)
            self._metrics.record(figures.RPC_CALLS, _seconds(span), labels)
        elif genai.HTTP_METHOD in found:
            labels = _labels(span, genai.HTTP_ROUTE, genai.HTTP_RESPONSE) | {
                genai.HTTP_METHOD: _one_of(found[genai.HTTP_METHOD], _METHODS),
            }
            self._metrics.record(figures.HTTP_REQUESTS, _seconds(span), labels)

    def _take_chat(self, span: RecordedSpan) -> None:
        record, found = self._metrics.record, span.attributes
        model = _labels(span, genai.PROVIDER_NAME, genai.REQUEST_MODEL)
        operation = model | {genai.OPERATION_NAME: genai.CHAT}
        ended = operation | _labels(span, genai.ERROR_TYPE)
        record(figures.MODEL_CALLS, _seconds(span), ended)
        if genai.FIRST_CHUNK in found:
            first = cast("float", found[genai.FIRST_CHUNK])
            record(figures.MODEL_FIRST_CHUNK, first, operation)
        for name, token_type in _TOKEN_TYPES:
            tokens = cast("int", found.get(name, 0))
            if tokens:
                record(figures.TOKENS, tokens, model | {genai.TOKEN_TYPE: token_type})
            if name in found and token_type in {"input", "output"}:
                typed = operation | {genai.TOKEN_TYPE: token_type}
                record(figures.MODEL_TOKENS, tokens, typed)
        self._input_tokens += cast("int", found.get(genai.INPUT_TOKENS, 0))
        self._cached_tokens += cast("int", found.get(genai.CACHE_READ_TOKENS, 0))
        if genai.COST_USD in found:
            # A figure for a chart; the books keep the exact one.
            cost = Decimal(str(found[genai.COST_USD]))
            record(figures.COST, cost.__float__(), model)

    def _take_tool(self, span: RecordedSpan) -> None:
        found = span.attributes
        outcome = str(found.get(genai.OUTCOME, "broken"))
        labels = _labels(span, genai.TOOL_NAME) | {genai.OUTCOME: outcome}
        self._metrics.record(figures.TOOL_DURATION, _seconds(span), labels)
        if outcome == "denied":
            self._metrics.record(figures.DENIALS, 1, _labels(span, genai.REASON))

    def _take_turn(self, span: RecordedSpan) -> None:
        record, found = self._metrics.record, span.attributes
        outcome = _labels(span, genai.OUTCOME)
        ended = outcome | _labels(span, genai.FINISH_REASON, genai.REASON)
        record(figures.TURNS, 1, ended)
        record(figures.TURN_DURATION, _seconds(span), outcome)
        record(figures.TURN_STEPS, cast("int", found.get(genai.STEPS, 0)), outcome)
        if genai.FIRST_TEXT in found:
            record(figures.TURN_FIRST_TEXT, cast("float", found[genai.FIRST_TEXT]), {})

    def _cache_read_ratio(self) -> Sequence[tuple[float, Labels]]:
        if not self._input_tokens:
            return ()
        return ((self._cached_tokens / self._input_tokens, {}),)


def _seconds(span: RecordedSpan) -> float:
    return max(0, span.end_ns - span.start_ns) / 1e9


def _labels(span: RecordedSpan, *names: str) -> dict[str, str]:
    return {name: str(span.attributes[name]) for name in names if name in span.attributes}


def _one_of(value: object, known: frozenset[str]) -> str:
    return str(value) if value in known else genai.OTHER
