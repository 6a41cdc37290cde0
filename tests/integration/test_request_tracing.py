"""The span of an HTTP request: what is in it, and above all what is not."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from minara_gateway.request_tracing import trace_requests
from minara_runtime import telemetry
from minara_runtime.settings import Settings
from minara_runtime.telemetry import Telemetry

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@dataclass
class Site:
    http: httpx.AsyncClient
    spans: InMemorySpanExporter

    def only(self) -> ReadableSpan:
        (span,) = self.spans.get_finished_spans()
        return span


@asynccontextmanager
async def a_site(tmp_path: Path) -> AsyncGenerator[Site]:
    spans = InMemorySpanExporter()
    traces = telemetry.configure(Settings(data_dir=tmp_path), "gateway", exporter=spans)
    app = Starlette(
        routes=[
            Route("/v1/sessions/{session_id}", _found, methods=["GET", "POST"]),
            Route("/broken", _broken),
            Route("/busy", _busy),
            Route("/stream", _stream(traces)),
            Route("/healthz", _found),
        ]
    )
    trace_requests(app, traces)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield Site(http, spans)


async def _found(request: Request) -> Response:
    return PlainTextResponse("here")


async def _broken(request: Request) -> Response:
    raise LookupError("the password is hunter2")


async def _busy(request: Request) -> Response:
    return PlainTextResponse("later", status_code=503)


def _stream(traces: Telemetry) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        async def parts() -> AsyncGenerator[bytes]:
            with traces.span("within"):
                yield b"one"
            yield b"two"

        return StreamingResponse(parts())

    return endpoint


async def test_a_request_leaves_a_span_named_by_its_route(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        await site.http.get("/v1/sessions/s1?token=hunter2")
        span = site.only()
    assert span.name == "GET /v1/sessions/{session_id}"
    assert span.kind is SpanKind.SERVER
    assert span.attributes == {
        "http.request.method": "GET",
        "url.scheme": "http",
        "http.response.status_code": 200,
        "http.route": "/v1/sessions/{session_id}",
        "url.path": "/v1/sessions/s1",
    }


async def test_a_path_that_no_route_has_is_kept_nowhere(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        await site.http.get("/my-password-is-hunter2")
        span = site.only()
    assert "hunter2" not in span.to_json()
    assert span.name == "GET"
    assert (span.attributes or {})["http.response.status_code"] == 404


async def test_an_invented_method_makes_no_new_name(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        await site.http.request("HUNTER2", "/v1/sessions/s1")
        span = site.only()
    assert "HUNTER2" not in span.to_json()


async def test_what_breaks_and_what_answers_5xx_is_marked_as_failed(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        await site.http.get("/broken")
        await site.http.get("/busy")
        await site.http.get("/nowhere")
        broken, busy, nowhere = site.spans.get_finished_spans()
    assert broken.status.status_code is StatusCode.ERROR
    assert (broken.attributes or {})["error.type"] == "LookupError"
    assert "hunter2" not in broken.to_json()
    assert (busy.attributes or {})["error.type"] == "503"
    assert nowhere.status.status_code is StatusCode.UNSET, "the caller's mistake is not ours"


async def test_the_span_lasts_as_long_as_the_stream_and_what_streams_stands_below_it(
    tmp_path: Path,
) -> None:
    async with a_site(tmp_path) as site:
        assert (await site.http.get("/stream")).text == "onetwo"
        within, request = site.spans.get_finished_spans()
    assert request.name == "GET /stream"
    context = request.get_span_context()
    assert context is not None
    assert within.parent is not None
    assert within.parent.span_id == context.span_id
    assert (request.end_time or 0) >= (within.end_time or 0)


async def test_a_caller_may_bring_its_own_trace_but_only_one(tmp_path: Path) -> None:
    header = f"00-{TRACE}-{PARENT}-01"
    async with a_site(tmp_path) as site:
        await site.http.get("/busy", headers={"traceparent": header})
        await site.http.get("/busy", headers=[("traceparent", header), ("traceparent", header)])
        await site.http.get("/busy", headers={"traceparent": "00-x"})
        joined, *others = site.spans.get_finished_spans()
    assert joined.parent is not None
    assert f"{joined.parent.trace_id:032x}" == TRACE
    assert all(span.parent is None for span in others)


async def test_probes_leave_no_spans(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        await site.http.get("/healthz")
        assert site.spans.get_finished_spans() == ()
