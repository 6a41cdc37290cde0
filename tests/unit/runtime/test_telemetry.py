import json
import stat
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from minara_core.errors import Conflict
from minara_runtime import genai, telemetry
from minara_runtime.settings import Settings
from minara_runtime.span_file import FileSpanExporter, read_trace
from minara_runtime.trace_context import remote_parent, traceparent


@pytest.fixture
def finished() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def test_spans_nest_and_carry_their_attributes(finished: InMemorySpanExporter) -> None:
    made = telemetry.configure(Settings(), "orchestrator", exporter=finished)
    with (
        made.span(genai.INVOKE_AGENT, {genai.TURN_ID: "t1"}),
        made.span(genai.CHAT, {genai.REQUEST_MODEL: "offline"}),
    ):
        pass
    inner, outer = finished.get_finished_spans()
    assert outer.attributes == {"minara.turn_id": "t1"}
    assert inner.attributes == {"gen_ai.request.model": "offline"}
    assert inner.parent is not None
    context = outer.get_span_context()
    assert context is not None
    assert inner.parent.span_id == context.span_id


def test_a_failed_span_keeps_type_and_reason_but_no_text(finished: InMemorySpanExporter) -> None:
    made = telemetry.configure(Settings(), "orchestrator", exporter=finished)
    with pytest.raises(Conflict), made.span("work"):
        raise Conflict("the password is hunter2")
    (span,) = finished.get_finished_spans()
    assert span.attributes == {"error.type": "Conflict", "minara.reason": "ETAG_MISMATCH"}
    assert "hunter2" not in span.to_json()


def test_no_global_provider_is_set(finished: InMemorySpanExporter) -> None:
    before = trace.get_tracer_provider()
    telemetry.configure(Settings(), "orchestrator", exporter=finished)
    assert trace.get_tracer_provider() is before


def test_disabled_telemetry_makes_no_trace() -> None:
    with telemetry.disabled().span("work"):
        assert traceparent() is None


def test_a_trace_goes_on_from_its_header(finished: InMemorySpanExporter) -> None:
    made = telemetry.configure(Settings(), "tools", exporter=finished)
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with made.span("rpc", parent=remote_parent({"traceparent": header})):
        own = traceparent()
    assert own is not None
    assert own.startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert own != header


@pytest.mark.parametrize(
    "header",
    ["", "00-xyz", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff-" + "a" * 32 + "-" + "b" * 16],
)
def test_a_malformed_header_begins_a_new_trace(finished: InMemorySpanExporter, header: str) -> None:
    made = telemetry.configure(Settings(), "tools", exporter=finished)
    with made.span("rpc", parent=remote_parent({"traceparent": header})):
        own = traceparent()
    assert own is not None
    (span,) = finished.get_finished_spans()
    assert span.parent is None


def test_a_turn_can_be_read_back_with_everything_in_its_trace(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path), "minara")
    for turn in ("t1", "t2"):
        with (
            made.span("http"),
            made.span(genai.INVOKE_AGENT, {genai.TURN_ID: turn}),
            made.span(genai.CHAT, {genai.INPUT_TOKENS: 7}),
        ):
            pass
    made.flush()
    path = tmp_path / telemetry.SPAN_FILE
    spans = read_trace(path, "t1")
    made.close()
    assert [span.name for span in spans] == ["http", "invoke_agent", "chat"]
    http, agent, chat = spans
    assert http.parent_id == ""
    assert (agent.parent_id, chat.parent_id) == (http.span_id, agent.span_id)
    assert chat.attributes == {"gen_ai.usage.input_tokens": 7}
    assert chat.service == "minara"
    assert http.duration_ms >= chat.duration_ms >= 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_trace(path, "unknown") == []
    assert read_trace(tmp_path / "absent", "t1") == []


def test_the_span_file_rotates_and_old_files_are_still_read(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    made = telemetry.configure(Settings(), "minara", exporter=exporter)
    for number in range(40):
        with made.span("work", {genai.TURN_ID: f"t{number}"}):
            pass
    path = tmp_path / "spans.ndjson"
    file = FileSpanExporter(path, max_bytes=1_000, kept=2)
    for span in exporter.get_finished_spans():
        file.export([span])
    names = sorted(found.name for found in tmp_path.iterdir() if "ndjson" in found.name)
    assert names == ["spans.ndjson", "spans.ndjson.1", "spans.ndjson.2"]
    assert all(found.stat().st_size <= 1_000 for found in tmp_path.iterdir())
    assert [span.name for span in read_trace(path, "t39")] == ["work"]
    oldest = json.loads((tmp_path / "spans.ndjson.2").read_text().splitlines()[0])
    assert read_trace(path, oldest["attributes"]["minara.turn_id"]) != []
    assert read_trace(path, "t0") == []


def test_a_line_cut_by_a_crash_is_skipped(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path), "minara")
    with made.span("work", {genai.TURN_ID: "t1"}):
        pass
    made.close()
    path = tmp_path / telemetry.SPAN_FILE
    with path.open("a") as file:
        file.write('{"trace_id": "cut')
    assert [span.name for span in read_trace(path, "t1")] == ["work"]
