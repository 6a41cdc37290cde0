"""Each figure, driven by what it measures, and read as Prometheus reads it: over HTTP."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.trace import SpanKind
from typing_extensions import override

from minara_core.events import TokenUsage
from minara_gateway.client import GatewayClient
from minara_gateway.embedded import EmbeddedSettings, run_embedded
from minara_gateway.serving import bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_llm.model import FailureKind, ModelEvent, ModelFailure, ModelRequest
from minara_llm.scripted import Script, ScriptedModel, calls, says
from minara_orchestrator.settings import OrchestratorSettings
from minara_runtime import genai, telemetry
from minara_runtime.settings import Settings, SettingsError
from minara_skills.settings import SkillsSettings
from minara_tools.settings import ToolsSettings
from minara_workspace.settings import WorkspaceSettings
from support.eventually import eventually
from support.scrape import Scrape, fetch, scrape

USAGE = TokenUsage(
    input_tokens=1_000, output_tokens=50, cache_read_tokens=800, cost_usd=Decimal("0.0125")
)


class HeldModel(ScriptedModel):
    """Says nothing before `go_on` is set."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        super().__init__(scripts)
        self.go_on = asyncio.Event()

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        await self.go_on.wait()
        async for event in super().stream(request):
            yield event


@dataclass
class Observed:
    """A running Minara and its figures."""

    client: GatewayClient
    port: int

    async def say(self, message: str, session_id: str = "") -> dict[str, Any]:
        return await self.client.call(
            "POST", "/v1/chat", {"message": message, "session_id": session_id}
        )

    async def scrape(self) -> Scrape:
        return await scrape(self.port)


@asynccontextmanager
async def observed(
    data_dir: Path, *scripts: Script, model: ScriptedModel | None = None
) -> AsyncGenerator[Observed]:
    settings = EmbeddedSettings(
        gateway=GatewaySettings(data_dir=data_dir, metrics_address="127.0.0.1:0"),
        orchestrator=OrchestratorSettings(data_dir=data_dir),
        skills=SkillsSettings(data_dir=data_dir),
        tools=ToolsSettings(data_dir=data_dir),
        workspace=WorkspaceSettings(data_dir=data_dir, workspace_dir=data_dir / "pages"),
    )
    traces = telemetry.configure(settings.gateway, "minara")
    model = model or ScriptedModel(scripts, provider="acme", name="acme-1")
    async with run_embedded(settings, telemetry=traces, model=model) as engine:
        socket_path = data_dir / "test.sock"
        async with serving(engine.gateway.app, bind_unix(socket_path)):
            client = GatewayClient.over_socket(socket_path, engine.gateway.token)
            try:
                yield Observed(client, traces.metrics_port)
            finally:
                await client.aclose()
    await asyncio.to_thread(traces.close)


async def test_a_turn_moves_the_figures_of_every_border_it_crosses(tmp_path: Path) -> None:
    price = calls(("get_price", {"symbol": "BTC"}), usage=USAGE)
    async with observed(tmp_path, price, says("It is so.", usage=USAGE)) as minara:
        await minara.say("price of BTC")
        seen = await minara.scrape()
    http = {"http_route": "/v1/chat", "http_request_method": "POST"}
    assert seen.of("http_server_request_duration_seconds_count", **http) == 1
    for method in (
        "minara.orchestrator.v1.AgentService/RunTurn",
        "minara.workspace.v1.ContextService/PrepareTurn",
        "minara.skills.v1.SkillService/SelectSkills",
        "minara.tools.v1.ToolService/ExecuteTools",
    ):
        name = "rpc_server_call_duration_seconds_count"
        assert seen.of(name, rpc_method=method, rpc_response_status_code="OK") == 1
    assert seen.of("minara_turns_total", minara_outcome="completed") == 1
    assert seen.of("minara_turns_total", minara_finish_reason="stop") == 1
    assert seen.of("minara_turn_duration_seconds_count") == 1
    assert seen.of("minara_turn_time_to_first_token_seconds_count") == 1
    assert seen.of("minara_turn_steps_sum") == 2
    assert seen.of("minara_step_duration_seconds_count") == 2
    tool = {"gen_ai_tool_name": "get_price", "minara_outcome": "success"}
    assert seen.of("minara_tool_duration_seconds_count", **tool) == 1


async def test_a_model_call_moves_tokens_dollars_and_the_cache_ratio(tmp_path: Path) -> None:
    async with observed(tmp_path, says("Yes.", usage=USAGE), says("No.", usage=USAGE)) as minara:
        await minara.say("hello")
        await minara.say("hello again")
        seen = await minara.scrape()
    model = {"gen_ai_provider_name": "acme", "gen_ai_request_model": "acme-1"}
    operation = model | {"gen_ai_operation_name": "chat"}
    assert seen.of("gen_ai_client_operation_duration_seconds_count", **operation) == 2
    assert seen.of("gen_ai_client_operation_time_to_first_chunk_seconds_count", **operation) == 2
    usage = "gen_ai_client_token_usage_sum"
    assert seen.of(usage, gen_ai_token_type="input", **operation) == 2_000
    assert seen.of(usage, gen_ai_token_type="output", **operation) == 100
    assert seen.of("minara_tokens_total", gen_ai_token_type="cache_read", **model) == 1_600
    assert seen.of("minara_cost_total", **model) == pytest.approx(0.025)
    assert seen.of("minara_cache_read_ratio") == pytest.approx(0.8)


async def test_denials_are_counted_by_their_code_and_an_invented_tool_makes_no_label(
    tmp_path: Path,
) -> None:
    invented = calls(("transfer everything to mallory", {}), ("rm_rf_7f3a", {}))
    async with observed(tmp_path, invented, says("Well.")) as minara:
        await minara.say("hello")
        seen = await minara.scrape()
    assert seen.of("minara_denials_total", minara_reason="TOOL_UNKNOWN") == 2
    denied = {"minara_outcome": "denied", "gen_ai_tool_name": "_OTHER"}
    assert seen.of("minara_tool_duration_seconds_count", **denied) == 2
    assert not any("mallory" in label or "rm_rf" in label for label in seen.labels())


async def test_a_failed_turn_is_counted_by_its_reason(tmp_path: Path) -> None:
    broken = ModelFailure("the key is wrong", kind=FailureKind.AUTHENTICATION)
    async with observed(tmp_path, broken) as minara:
        with pytest.raises(Exception, match="key"):
            await minara.say("hello")
        seen = await minara.scrape()
    failed = {"minara_outcome": "failed", "minara_reason": "MODEL_UNAVAILABLE"}
    assert seen.of("minara_turns_total", **failed) == 1
    ended = {"error_type": "ModelFailure"}
    assert seen.of("gen_ai_client_operation_duration_seconds_count", **ended) == 1


async def test_running_and_waiting_turns_are_told_apart(tmp_path: Path) -> None:
    model = HeldModel([says("one"), says("two")])
    async with observed(tmp_path, model=model) as minara:
        session_id = (await minara.client.call("POST", "/v1/sessions", {}))["session_id"]
        async with asyncio.TaskGroup() as turns:
            for _ in range(2):
                turns.create_task(minara.say("hello", session_id))

            async def is_queued() -> bool:
                seen = await minara.scrape()
                queue = "minara_turn_queue"
                return (
                    seen.of(queue, minara_state="running"),
                    seen.of(queue, minara_state="waiting"),
                ) == (1, 1)

            await eventually(is_queued)
            model.go_on.set()
        seen = await minara.scrape()
    assert seen.of("minara_turn_queue") == 0


async def test_events_reach_a_subscriber_and_their_lag_is_measured(tmp_path: Path) -> None:
    async with observed(tmp_path, says("one")) as minara:
        session_id = (await minara.client.call("POST", "/v1/sessions", {}))["session_id"]
        body = {"message": "hello", "session_id": session_id}
        events = [e async for e in minara.client.stream("/v1/chat/stream", body)]
        seen = await minara.scrape()
        count = seen.of("minara_event_lag_seconds_count")
        assert 1 <= count <= len(events)
        assert seen.of("minara_event_lag_seconds_sum") < 10
        turn_id = events[0].fields["turn_id"]
        resumed = minara.client.stream(f"/v1/chat/stream/resume?turn_id={turn_id}")
        assert [event.sequence async for event in resumed] == [e.sequence for e in events]
        seen = await minara.scrape()
    assert seen.of("minara_event_lag_seconds_count") == count, "a replay is not late"


async def test_the_ledger_and_the_databases_are_watched(tmp_path: Path) -> None:
    async with observed(tmp_path) as minara:

        async def is_counted() -> bool:
            seen = await minara.scrape()
            return any(name == "minara_ledger_operations" for name, _, _ in seen.samples)

        await eventually(is_counted)
        seen = await minara.scrape()
    for state in ("intent", "held", "sent", "open", "uncertain"):
        assert seen.of("minara_ledger_operations", minara_state=state) == 0
    for pool in ("orchestrator", "workspace", "skills", "tools"):
        connections = "db_client_connection_count"
        assert seen.of(connections, db_client_connection_pool_name=pool) >= 0


async def test_no_label_names_a_person_a_session_or_a_turn(tmp_path: Path) -> None:
    async with observed(tmp_path, says("one")) as minara:
        reply = await minara.say("price of BTC")
        seen = await minara.scrape()
    hidden = {reply["turn_id"], reply["session_id"], "local", "price of BTC"}
    assert not hidden & seen.labels()


async def test_only_metrics_are_answered_and_no_turn_is_touched_by_a_scrape(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path, metrics_address="127.0.0.1:0"), "tools")
    assert (await fetch(made.metrics_port, "/")).status_code == 404
    assert (await fetch(made.metrics_port, "/metrics?x=1")).status_code == 200
    with made.span("work", {genai.RPC_METHOD: "a.B/C"}, kind=SpanKind.SERVER):
        pass
    answer = await fetch(made.metrics_port)
    assert 'service_name="tools"' in answer.text
    assert 'rpc_method="a.B/C"' in answer.text, "what ended before a scrape is in it"
    assert answer.headers["content-type"].startswith("text/plain")
    assert "process_resident_memory_bytes" in answer.text
    await asyncio.to_thread(made.close)
    with pytest.raises(httpx.TransportError):
        await fetch(made.metrics_port)


async def test_a_late_loop_is_seen_from_outside(tmp_path: Path) -> None:
    made = telemetry.configure(Settings(data_dir=tmp_path, metrics_address="127.0.0.1:0"), "tools")

    async def is_measured() -> bool:
        seen = await scrape(made.metrics_port)
        return any(name == "minara_event_loop_lag_seconds_count" for name, _, _ in seen.samples)

    await eventually(is_measured)
    await asyncio.to_thread(made.close)


def test_a_taken_address_refuses_the_start_and_says_which(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SettingsError, match=f"MINARA_METRICS_ADDRESS: {address}"):
            telemetry.configure(Settings(data_dir=tmp_path, metrics_address=address), "tools")
