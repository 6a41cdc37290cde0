"""A turn with one tool call and a model that answers at once: request sent to last byte received.

Everything is on as in production: HTTP, gRPC in process, grants, gates, audit, fsync where the
design has it, traces to a file.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.wire import percentile, stream
from bench.yardstick import yardstick
from minara_gateway.client import GatewayClient
from minara_gateway.embedded import EmbeddedSettings, run_embedded
from minara_gateway.serving import bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_llm.scripted import ScriptedModel, calls, says
from minara_orchestrator.settings import OrchestratorSettings
from minara_runtime import telemetry
from minara_runtime.collector import leave_to_live
from minara_runtime.database import Database
from minara_skills.settings import SkillsSettings
from minara_tools.settings import ToolsSettings
from minara_workspace.settings import WorkspaceSettings

WARM_UP = 20
TURNS_PER_SESSION = 10


@contextmanager
def counting_commits(counts: Counter[str]) -> Generator[None]:
    """Count transactions while the body runs; reads are not commits."""
    original = Database.transaction

    async def counted(self: Database, fn: Callable[..., Any], **options: Any) -> Any:
        counts["commits"] += 1
        return await original(self, fn, **options)

    Database.transaction = counted
    try:
        yield
    finally:
        Database.transaction = original


async def measure_turns(data_dir: Path, turns: int) -> dict[str, float]:
    """Milliseconds and commits per turn, embedded, on SQLite; the yardstick is taken in between."""
    total = turns + WARM_UP
    scripts = [
        s
        for _ in range(total)
        for s in (calls(("get_price", {"symbol": "BTC"})), says("It is so."))
    ]
    settings = EmbeddedSettings(
        gateway=GatewaySettings(data_dir=data_dir),
        orchestrator=OrchestratorSettings(data_dir=data_dir),
        skills=SkillsSettings(data_dir=data_dir),
        tools=ToolsSettings(data_dir=data_dir),
        workspace=WorkspaceSettings(data_dir=data_dir, workspace_dir=data_dir / "pages"),
    )
    traces = telemetry.configure(settings.gateway, "minara")
    counts: Counter[str] = Counter()
    whole: list[float] = []
    first: list[float] = []
    async with run_embedded(settings, telemetry=traces, model=ScriptedModel(scripts)) as engine:
        socket = data_dir / "bench.sock"
        async with (
            serving(engine.gateway.app, bind_unix(socket)),
            yardstick(data_dir) as bare,
        ):
            leave_to_live()
            client = GatewayClient.over_socket(socket, engine.gateway.token)
            session_id = ""
            for number in range(total):
                if number % TURNS_PER_SESSION == 0:
                    session_id = (await client.call("POST", "/v1/sessions", {}))["session_id"]
                with counting_commits(counts):
                    begin = time.perf_counter()
                    text_at = await stream(
                        socket,
                        "/v1/chat/stream",
                        {"message": "price of BTC", "session_id": session_id},
                        token=engine.gateway.token,
                        watch=b"event: text_delta",
                        last=b"event: turn_completed",
                    )
                    end = time.perf_counter()
                await bare.measure()
                if number >= WARM_UP:
                    whole.append((end - begin) * 1_000)
                    first.append((text_at - begin) * 1_000)
            await client.aclose()
    traces.close()
    return {
        "turn_p50_ms": percentile(whole, 50),
        "turn_p99_ms": percentile(whole, 99),
        "first_text_p50_ms": percentile(first, 50),
        "bare_p50_ms": bare.p50_ms,
        "turn_over_bare": percentile(whole, 50) / bare.p50_ms,
        "commits_per_turn": counts["commits"] / total,
    }
