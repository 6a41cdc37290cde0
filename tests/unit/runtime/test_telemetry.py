import asyncio
import fcntl
import json
import re
import stat
import time
from pathlib import Path

import pytest
from opentelemetry import semconv, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from minara_core.errors import Conflict
from minara_runtime import genai, telemetry
from minara_runtime.settings import Settings
from minara_runtime.span_file import FileSpans, read_trace
from minara_runtime.spans import RecordedSpan, SpanMaker
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
    ended: list[RecordedSpan] = []
    maker = SpanMaker(ended.append)
    for number in range(40):
        with maker.make(genai.INVOKE_AGENT, {genai.TURN_ID: f"t{number}"}, SpanKind.INTERNAL, None):
            pass
    path = tmp_path / "spans.ndjson"
    file = FileSpans(path, Resource({genai.SERVICE_NAME: "minara"}), max_bytes=1_000, kept=2)
    for span in ended:
        file.take([span])
        file.flush()
    names = sorted(found.name for found in tmp_path.iterdir() if "ndjson" in found.name)
    assert names == ["spans.ndjson", "spans.ndjson.1", "spans.ndjson.2"]
    assert all(found.stat().st_size <= 1_000 for found in tmp_path.iterdir())
    assert [span.name for span in read_trace(path, "t39")] == [genai.INVOKE_AGENT]
    oldest = json.loads((tmp_path / "spans.ndjson.2").read_text().splitlines()[0])
    assert read_trace(path, oldest["attributes"]["minara.turn_id"]) != []
    assert read_trace(path, "t0") == []


def test_a_stopped_process_that_holds_the_file_keeps_no_other_from_ending(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path), "minara")
    with made.span("work", {genai.TURN_ID: "t1"}):
        pass
    path = tmp_path / telemetry.SPAN_FILE
    path.parent.mkdir(parents=True)
    with path.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        begin = time.monotonic()
        made.close()
        assert time.monotonic() - begin < 3
    assert read_trace(path, "t1") == []


def test_turns_that_share_a_callers_trace_are_read_apart(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path), "minara")
    header = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    for turn in ("t1", "t2"):
        with (
            made.span(f"http {turn}", parent=remote_parent(header)),
            made.span("sessions"),
            made.span(genai.INVOKE_AGENT, {genai.TURN_ID: turn}),
            made.span(f"chat {turn}"),
        ):
            pass
    made.close()
    names = {span.name for span in read_trace(tmp_path / telemetry.SPAN_FILE, "t1")}
    assert names == {"http t1", "sessions", "invoke_agent", "chat t1"}


def test_a_request_that_serves_two_turns_shows_each_without_the_other(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path), "minara")
    with made.span("http"):
        for turn in ("t1", "t2"):
            with made.span(genai.INVOKE_AGENT, {genai.TURN_ID: turn}), made.span(f"chat {turn}"):
                pass
    made.close()
    names = {span.name for span in read_trace(tmp_path / telemetry.SPAN_FILE, "t2")}
    assert names == {"http", "invoke_agent", "chat t2"}


def test_a_cancelled_span_is_nobodys_failure(finished: InMemorySpanExporter) -> None:
    made = telemetry.configure(Settings(), "orchestrator", exporter=finished)
    with pytest.raises(asyncio.CancelledError), made.span("work"):
        raise asyncio.CancelledError
    (span,) = finished.get_finished_spans()
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes == {"minara.outcome": "cancelled"}


def test_every_process_says_what_it_is(finished: InMemorySpanExporter) -> None:
    for _ in range(2):
        with telemetry.configure(Settings(), "tools", exporter=finished).span("work"):
            pass
    one, other = (span.resource.attributes for span in finished.get_finished_spans())
    assert one["service.name"] == "tools"
    assert one["service.version"]
    assert one["service.instance.id"] != other["service.instance.id"]


@pytest.mark.parametrize(
    ("sample", "least", "most"), [(0.0, 0, 0), (0.5, 400, 600), (1.0, 1000, 1000)]
)
def test_a_share_of_all_traces_is_sampled_and_the_others_are_recorded_too(
    sample: float, least: int, most: int
) -> None:
    ended: list[RecordedSpan] = []
    maker = SpanMaker(ended.append, sample=sample)
    for _ in range(1_000):
        with maker.make("root", None, SpanKind.SERVER, None):
            pass
    assert len(ended) == 1_000
    assert least <= sum(span.context.trace_flags.sampled for span in ended) <= most


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_callers_decision_to_sample_is_taken_over_and_handed_on(flags: str) -> None:
    ended: list[RecordedSpan] = []
    maker = SpanMaker(ended.append, sample=1.0 - int(flags))
    header = f"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}"
    with maker.make("rpc", None, SpanKind.SERVER, remote_parent({"traceparent": header})):
        sent = traceparent()
    assert sent is not None
    assert sent.endswith(f"-{flags}")


def test_a_parent_of_a_later_version_is_understood() -> None:
    ended: list[RecordedSpan] = []
    header = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes-later"
    maker = SpanMaker(ended.append)
    with maker.make("rpc", None, SpanKind.SERVER, remote_parent({"traceparent": header})):
        pass
    assert ended[0].context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C


def test_names_are_those_of_the_conventions() -> None:
    """The constants of `genai` that are not ours exist in the conventions' package."""
    folder = Path(semconv.__file__).parent
    known = {
        value
        for file in folder.rglob("*_attributes.py")
        for value in re.findall(
            r'^[A-Z_]+: Final = "([^"]+)"', file.read_text("utf-8"), re.MULTILINE
        )
    }
    ours = {
        value
        for name, value in vars(genai).items()
        if name.isupper() and isinstance(value, str) and "." in value
    }
    unknown = {value for value in ours - known if not value.startswith("minara.")}
    assert unknown == set()


def test_who_watches_a_turn_later_or_asks_for_one_that_is_none_is_not_in_its_trace(
    tmp_path: Path,
) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path), "minara")
    with made.span("POST"), made.span(genai.INVOKE_AGENT, {genai.TURN_ID: "t1"}):
        pass
    for turn_id in ("t1", "nope"):
        with made.span("GET resume", {genai.TURN_ID: turn_id}):
            pass
    made.close()
    path = tmp_path / telemetry.SPAN_FILE
    assert [span.name for span in read_trace(path, "t1")] == ["POST", genai.INVOKE_AGENT]
    assert read_trace(path, "nope") == []


def test_a_line_cut_by_a_crash_is_skipped(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path), "minara")
    with made.span(genai.INVOKE_AGENT, {genai.TURN_ID: "t1"}):
        pass
    made.close()
    path = tmp_path / telemetry.SPAN_FILE
    with path.open("a") as file:
        file.write('{"trace_id": "cut')
    assert [span.name for span in read_trace(path, "t1")] == [genai.INVOKE_AGENT]
