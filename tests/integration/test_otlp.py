"""Spans and figures over OTLP to a real receiver, which may also refuse, hang, or not be there."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.trace import SpanKind

from minara_runtime import genai, logging, otlp, telemetry
from minara_runtime.otlp import Collector, OtlpSpans
from minara_runtime.settings import Settings
from minara_runtime.span_file import read_trace
from minara_runtime.spans import RecordedSpan, SpanMaker
from minara_runtime.telemetry import SPAN_FILE, Telemetry
from support.eventually import eventually
from support.otlp import ERROR, a_receiver

CLOSE_SECONDS = 2.5


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    logging.configure(Settings(data_dir=tmp_path), console=False)
    yield tmp_path / logging.LOG_FILE
    logging.close()


def configured(data_dir: Path, endpoint: str, **more: Any) -> Telemetry:
    settings = Settings(data_dir=data_dir, otlp_endpoint=endpoint, **more)
    return telemetry.configure(settings, "tools")


async def closed(made: Telemetry) -> float:
    """Close it beside the loop, on which the receiver lives; how long that took."""
    begin = time.monotonic()
    await asyncio.to_thread(made.close)
    return time.monotonic() - begin


def events(log: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in lines_of(log) if line["event"] == event]


def lines_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


async def test_spans_and_figures_arrive_with_all_they_carry(tmp_path: Path) -> None:
    async with a_receiver() as receiver:
        made = configured(tmp_path, receiver.endpoint)
        with (
            made.span("http", {genai.HTTP_METHOD: "POST"}, kind=SpanKind.SERVER),
            made.span(genai.INVOKE_AGENT, {genai.TURN_ID: "t1"}),
            pytest.raises(ValueError, match="hunter2"),
            made.span(genai.CHAT, {genai.INPUT_TOKENS: 7, genai.FINISH_REASONS: ("stop",)}),
        ):
            raise ValueError("hunter2")
        await closed(made)
        spans = {span.name: span for span in receiver.spans()}
    assert set(spans) == {"http", "invoke_agent", "chat"}
    http, agent, chat = spans["http"], spans["invoke_agent"], spans["chat"]
    assert (http.parent_id, agent.parent_id, chat.parent_id) == ("", http.span_id, agent.span_id)
    assert len({span.trace_id for span in spans.values()}) == 1
    assert chat.attributes == {
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.response.finish_reasons": ["stop"],
        "error.type": "ValueError",
    }
    assert (http.code, chat.code) == (0, ERROR)
    assert "hunter2" not in chat.text
    assert http.service == "tools"
    assert http.instance
    assert "http.server.request.duration" in receiver.figures


async def test_what_is_not_sampled_stays_on_this_machine(tmp_path: Path) -> None:
    async with a_receiver() as receiver:
        made = configured(tmp_path, receiver.endpoint, trace_sample=0.0)
        with made.span(genai.INVOKE_AGENT, {genai.TURN_ID: "t1"}):
            pass
        await closed(made)
        assert receiver.spans() == ()
    assert [span.name for span in read_trace(tmp_path / SPAN_FILE, "t1")] == [genai.INVOKE_AGENT]


async def test_a_refusing_collector_gets_the_spans_once_it_takes_them(
    tmp_path: Path, log: Path
) -> None:
    async with a_receiver() as receiver:
        receiver.refusal = grpc.StatusCode.UNAVAILABLE
        made = configured(tmp_path, receiver.endpoint)
        for number in range(50):
            with made.span(genai.INVOKE_AGENT, {genai.TURN_ID: f"t{number}"}):
                pass
        made.flush()
        await eventually(lambda: receiver.exports >= 2)
        receiver.refusal = None
        await eventually(lambda: len(receiver.spans()) == 50, timeout=10)
        await closed(made)
    assert [line["code"] for line in events(log, "collector_away")] == ["UNAVAILABLE"]
    assert len(events(log, "collector_back")) == 1


@pytest.mark.parametrize("kind", ["absent", "refusing", "silent"])
async def test_a_dead_collector_costs_nothing_but_its_spans(
    tmp_path: Path, log: Path, kind: str
) -> None:
    async with a_receiver() as receiver:
        receiver.refusal = grpc.StatusCode.UNAVAILABLE if kind == "refusing" else None
        receiver.is_silent = kind == "silent"
        endpoint = f"http://127.0.0.1:{free_port()}" if kind == "absent" else receiver.endpoint
        made = configured(tmp_path, endpoint)
        begin = time.perf_counter()
        for number in range(2_000):
            with made.span(genai.INVOKE_AGENT, {genai.TURN_ID: f"t{number}"}):
                pass
        assert time.perf_counter() - begin < 2
        made.flush()
        await eventually(lambda: kind == "absent" or receiver.exports > 0)
        assert await closed(made) < CLOSE_SECONDS
    assert [span.name for span in read_trace(tmp_path / SPAN_FILE, "t1999")] == [genai.INVOKE_AGENT]
    assert len(events(log, "collector_away")) == 1
    assert "Traceback" not in json.dumps(lines_of(log))


async def test_a_dead_collector_holds_a_bounded_number_of_spans(tmp_path: Path) -> None:
    ended: list[RecordedSpan] = []
    maker = SpanMaker(ended.append)
    for number in range(100):
        with maker.make(f"work {number}", None, SpanKind.INTERNAL, None):
            pass
    async with a_receiver() as receiver:
        receiver.refusal = grpc.StatusCode.UNAVAILABLE
        spans = OtlpSpans(Collector(receiver.endpoint), telemetry.resource_of("tools"), capacity=10)
        for span in ended:
            spans.take([span])
        spans.flush()
        await eventually(lambda: receiver.exports > 0)
        for span in ended[:5]:
            spans.take([span])
        receiver.refusal = None
        await asyncio.to_thread(spans.close)
        names = {span.name for span in receiver.spans()}
    assert len(names) <= 10
    assert {f"work {number}" for number in range(5)} <= names


def test_an_endpoint_without_http_is_reached_by_tls() -> None:
    """No certificate, no export: nothing goes out in the clear by mistake."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        collector = Collector(f"127.0.0.1:{port}")
        collector.hurry()
        assert not collector.export_spans(otlp.encode_spans([]))
        listening.setblocking(True)
        accepted, _ = listening.accept()
        with accepted:
            hello = accepted.recv(1)
        assert hello == b"\x16", "a TLS handshake begins with this byte"
        collector.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
