"""What traces and metrics cost a turn, on and off turn by turn in one running Minara.

Spans are written out beside the path, about once a second. So that this cost is not shared out over
both kinds of turns it is kept out of them, taken by itself and added.
"""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind
from opentelemetry.util.types import AttributeValue
from typing_extensions import override

from bench.wire import percentile, stream
from minara_gateway.client import GatewayClient
from minara_gateway.embedded import EmbeddedSettings, run_embedded
from minara_gateway.serving import bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_llm.scripted import ScriptedModel, calls, says
from minara_orchestrator.settings import OrchestratorSettings
from minara_runtime import telemetry
from minara_runtime.collector import leave_to_live
from minara_runtime.metrics import Metrics
from minara_runtime.settings import Settings
from minara_runtime.span_file import FileSpans
from minara_runtime.span_outlet import SpanOutlet
from minara_runtime.spans import RecordedSpan, SpanMaker
from minara_runtime.telemetry import Telemetry
from minara_runtime.telemetry_export import Exports
from minara_skills.settings import SkillsSettings
from minara_tools.settings import ToolsSettings
from minara_workspace.settings import WorkspaceSettings

WARM_UP = 20
TURNS_PER_SESSION = 10
WRITE_EVERY = 20


class SwitchedTelemetry(Telemetry):
    """Telemetry as configured for production with a `/metrics` listener, or none, as `is_on` says;
    what it holds is written by `write` alone."""

    def __init__(self, settings: Settings) -> None:
        resource = telemetry.resource_of("minara")
        self._exports = Exports(settings, resource)
        self._outlet = SpanOutlet(
            [FileSpans(settings.data_dir / telemetry.SPAN_FILE, resource), *self._exports.takers],
            every_seconds=3_600,
        )
        super().__init__(SpanMaker(self._put), self._exports.metrics)
        self._none = telemetry.disabled()
        self._no_metrics = Metrics()
        self.is_on = True
        self.spans = 0
        self.write_seconds = 0.0

    def turn(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.metrics = self._exports.metrics if is_on else self._no_metrics

    def write(self) -> None:
        begin = time.perf_counter()
        self._outlet.flush()
        self.write_seconds += time.perf_counter() - begin

    def _put(self, span: RecordedSpan) -> None:
        self.spans += 1
        self._outlet.put(span)

    @override
    def span(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: Context | None = None,
    ) -> AbstractContextManager[Span]:
        if not self.is_on:
            return self._none.span(name)
        return super().span(name, attributes, kind=kind, parent=parent)

    @override
    def close(self) -> None:
        self._exports.close()
        self._outlet.close()


async def measure_telemetry(data_dir: Path, turns: int) -> dict[str, float]:
    """The share of a turn that telemetry takes (0.1 = 10 %), embedded, on SQLite.

    Half of `turns` run with it. p50 of both kinds; the writing is a mean.
    """
    total = turns + WARM_UP
    scripts = [
        s
        for _ in range(total)
        for s in (calls(("get_price", {"symbol": "BTC"})), says("It is so."))
    ]
    settings = _settings(data_dir)
    traces = SwitchedTelemetry(settings.gateway)
    spent: dict[bool, list[float]] = {True: [], False: []}
    socket = data_dir / "bench.sock"
    async with run_embedded(settings, telemetry=traces, model=ScriptedModel(scripts)) as engine:
        token = engine.gateway.token
        async with serving(engine.gateway.app, bind_unix(socket)):
            leave_to_live()
            client = GatewayClient.over_socket(socket, token)
            session_id = ""
            for number in range(total):
                if number % TURNS_PER_SESSION == 0:
                    session_id = (await client.call("POST", "/v1/sessions", {}))["session_id"]
                if number % WRITE_EVERY == 0:
                    traces.write()
                if number == WARM_UP:
                    traces.spans, traces.write_seconds = 0, 0.0
                traces.turn(is_on=number % 2 == 0)
                begin = time.perf_counter()
                await stream(
                    socket,
                    "/v1/chat/stream",
                    {"message": "price of BTC", "session_id": session_id},
                    token=token,
                    watch=b"event: text_delta",
                    last=b"event: turn_completed",
                )
                if number >= WARM_UP:
                    spent[traces.is_on].append((time.perf_counter() - begin) * 1_000)
            traces.write()
            await client.aclose()
    traces.close()
    measured = len(spent[True])
    writing = traces.write_seconds * 1_000 / measured
    on, off = percentile(spent[True], 50) + writing, percentile(spent[False], 50)
    return {
        "telemetry_ms": on - off,
        "telemetry_writing_ms": writing,
        "telemetry_share": (on - off) / off,
        "spans_per_turn": traces.spans / measured,
    }


def _settings(data_dir: Path) -> EmbeddedSettings:
    return EmbeddedSettings(
        gateway=GatewaySettings(data_dir=data_dir, metrics_address="127.0.0.1:0"),
        orchestrator=OrchestratorSettings(data_dir=data_dir),
        skills=SkillsSettings(data_dir=data_dir),
        tools=ToolsSettings(data_dir=data_dir),
        workspace=WorkspaceSettings(data_dir=data_dir, workspace_dir=data_dir / "pages"),
    )
