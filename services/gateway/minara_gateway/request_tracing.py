"""A server span for every HTTP request: the root of a turn's trace, or the caller's own trace."""

from typing import cast

from opentelemetry.trace import Span, SpanKind
from opentelemetry.util.types import AttributeValue
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minara_runtime import genai
from minara_runtime.spans import mark_failed_as
from minara_runtime.telemetry import Telemetry
from minara_runtime.trace_context import TRACEPARENT, remote_parent

_PROBES = frozenset({"/healthz", "/readyz"})
"""Asked every few seconds by machines; they would be most of what is seen."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def trace_requests(app: Starlette, telemetry: Telemetry) -> None:
    """Trace every request of `app` from now on; before it serves."""
    app.add_middleware(RequestTracing, telemetry=telemetry)


class RequestTracing:
    """ASGI layer around everything. The span lasts to the last byte of a stream.

    A query string is never kept: a token may stand in it. Nor is a path that no route has.
    """

    def __init__(self, app: ASGIApp, *, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _PROBES:
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else genai.OTHER
        attributes: dict[str, AttributeValue] = {
            genai.HTTP_METHOD: method,
            genai.URL_SCHEME: scope["scheme"],
        }
        parent = remote_parent(_traceparent(scope))
        with self._telemetry.span(method, attributes, kind=SpanKind.SERVER, parent=parent) as span:

            async def observed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _take_answer(span, message["status"])
                await send(message)

            try:
                await self._app(scope, receive, observed)
            finally:
                _take_route(span, method, scope)


def _traceparent(scope: Scope) -> dict[str, str | bytes]:
    found = [value for name, value in scope["headers"] if name == TRACEPARENT.encode()]
    # Two of them are nobody's.
    return {TRACEPARENT: found[0].decode("latin-1")} if len(found) == 1 else {}


def _take_answer(span: Span, code: int) -> None:
    span.set_attribute(genai.HTTP_RESPONSE, code)
    if code >= 500:
        mark_failed_as(span, str(code))


def _take_route(span: Span, method: str, scope: Scope) -> None:
    route = cast("BaseRoute | None", scope.get("route"))
    template = getattr(route, "path", "")
    if template:
        span.update_name(f"{method} {template}")
        span.set_attribute(genai.HTTP_ROUTE, template)
        span.set_attribute(genai.URL_PATH, scope["path"])
