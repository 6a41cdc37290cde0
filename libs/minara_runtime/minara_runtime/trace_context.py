"""W3C trace context over metadata, by hand: the stock instrumentation costs half a millisecond."""

import re
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

TRACEPARENT = "traceparent"

_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def traceparent() -> str | None:
    """The current span as a `traceparent` header; None outside of a recorded trace."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def remote_parent(metadata: Mapping[str, str | bytes]) -> Context:
    """The caller's span as parent; an empty context when there is none or it is malformed.

    Later versions than 00 are read by the part that all versions share, as W3C asks; of the flags
    only `sampled` is taken over.
    """
    header = metadata.get(TRACEPARENT)
    match = _FORM.fullmatch(header) if isinstance(header, str) else None
    if match is None or (match[1] == "00" and match[5]):
        return Context()
    context = SpanContext(
        trace_id=int(match[2], 16),
        span_id=int(match[3], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(match[4], 16) & TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(NonRecordingSpan(context), Context())
