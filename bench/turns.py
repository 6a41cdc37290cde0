"""A turn with one tool call and a model that answers at once: request sent to last byte received.

Everything is on as in production: HTTP, gRPC, grants, gates, audit, fsync where the design has it,
traces to a file. Embedded, client and server share one process and loop, and the model is scripted;
elsewhere they are processes, and the model is the offline one, whose own cost is measured too.
"""

import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typing_extensions import override

from bench.places import Place
from bench.processes import cpu_seconds
from bench.wire import call, percentile, turn
from bench.yardstick import yardstick
from minara_core.clock import pause
from minara_gateway.embedded import EmbeddedSettings, run_embedded
from minara_gateway.serving import bind_unix, serving
from minara_gateway.settings import GatewaySettings
from minara_llm.model import ModelEvent, ModelRequest
from minara_llm.offline.model import OfflineModel
from minara_llm.scripted import ScriptedModel, calls, says
from minara_orchestrator.settings import OrchestratorSettings
from minara_runtime import genai, telemetry
from minara_runtime.collector import leave_to_live
from minara_runtime.database import Database
from minara_runtime.telemetry import SPAN_FILE
from minara_skills.settings import SkillsSettings
from minara_tools.settings import ToolsSettings
from minara_workspace.settings import WorkspaceSettings

WARM_UP = 20
TURNS_PER_SESSION = 10
_STATISTICS_SECONDS = 2.0
"""PostgreSQL tells its statistics after a second of idleness, spans are written after as long."""
_IDLE_SECONDS = 5.0


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


class TimedOfflineModel(OfflineModel):
    """Counts what it takes of a turn itself."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        begin = time.perf_counter()
        events = [event async for event in super().stream(request)]
        self.seconds += time.perf_counter() - begin
        for event in events:
            yield event


def embedded_settings(data_dir: Path) -> EmbeddedSettings:
    """All services in one process, on SQLite in this folder."""
    return EmbeddedSettings(
        gateway=GatewaySettings(data_dir=data_dir),
        orchestrator=OrchestratorSettings(data_dir=data_dir),
        skills=SkillsSettings(data_dir=data_dir),
        tools=ToolsSettings(data_dir=data_dir),
        workspace=WorkspaceSettings(data_dir=data_dir, workspace_dir=data_dir / "pages"),
    )


async def measure_embedded(data_dir: Path, turns: int) -> dict[str, float]:
    """Milliseconds, CPU, commits and RPCs per turn; the yardstick is taken in between."""
    total = turns + WARM_UP
    scripts = [
        s
        for _ in range(total)
        for s in (calls(("get_price", {"symbol": "BTC"})), says("It is so."))
    ]
    settings = embedded_settings(data_dir)
    traces = telemetry.configure(settings.gateway, "minara")
    counts: Counter[str] = Counter()
    whole: list[float] = []
    first: list[float] = []
    cpu = 0.0
    async with run_embedded(settings, telemetry=traces, model=ScriptedModel(scripts)) as engine:
        socket, token = data_dir / "bench.sock", engine.gateway.token
        async with serving(engine.gateway.app, bind_unix(socket)), yardstick(data_dir) as bare:
            leave_to_live()
            session_id = ""
            for number in range(total):
                if number % TURNS_PER_SESSION == 0:
                    session_id = await new_session(socket, token)
                with counting_commits(counts):
                    begin = time.process_time()
                    spent = await turn(socket, token=token, session_id=session_id)
                    cpu += (time.process_time() - begin) if number >= WARM_UP else 0.0
                await bare.measure()
                if number >= WARM_UP:
                    whole.append(spent.whole_ms)
                    first.append(spent.first_ms)
    traces.close()
    return {
        **_percentiles("", whole, first, bare.p50_ms),
        "bare_p50_ms": bare.p50_ms,
        "turn_cpu_ms": cpu * 1_000 / turns,
        "commits_per_turn": counts["commits"] / total,
        "rpcs_per_turn": rpcs_per_turn(data_dir),
    }


async def measure_offline_model(data_dir: Path, turns: int) -> dict[str, float]:
    """What the offline model itself takes of such a turn, for the figures of the processes."""
    model = TimedOfflineModel()
    async with run_embedded(
        embedded_settings(data_dir), telemetry=telemetry.disabled(), model=model
    ) as engine:
        socket, token = data_dir / "bench.sock", engine.gateway.token
        async with serving(engine.gateway.app, bind_unix(socket)):
            session_id = await new_session(socket, token)
            for _ in range(turns):
                await turn(socket, token=token, session_id=session_id)
    return {"offline_model_ms": model.seconds * 1_000 / turns}


async def measure_place(place: Place, folder: Path, turns: int, name: str) -> dict[str, float]:
    """The same in processes; figures start with `name`. Clients go round the gateways."""
    whole: list[float] = []
    first: list[float] = []
    async with yardstick(folder) as bare:
        session_id = ""
        for number in range(turns + WARM_UP):
            address = place.addresses[number % len(place.addresses)]
            if number % TURNS_PER_SESSION == 0:
                session_id = await new_session(address, place.token)
            spent = await turn(address, token=place.token, session_id=session_id)
            await bare.measure()
            if number >= WARM_UP:
                whole.append(spent.whole_ms)
                first.append(spent.first_ms)
        figures = _percentiles(f"{name}_", whole, first, bare.p50_ms)
    figures |= await _per_turn(place, min(turns, 100), name)
    figures[f"{name}_rpcs_per_turn"] = rpcs_per_turn(place.data_dir)
    return figures


async def _per_turn(place: Place, turns: int, name: str) -> dict[str, float]:
    """CPU of all processes, and PostgreSQL's transactions, without what they do when idle."""
    session_id = await new_session(place.addresses[0], place.token)
    idle = await _spending(place, lambda: pause(_IDLE_SECONDS))

    async def work() -> None:
        for number in range(turns):
            address = place.addresses[number % len(place.addresses)]
            await turn(address, token=place.token, session_id=session_id)

    busy = await _spending(place, work)
    per_turn = {
        what: max(0.0, busy[what] - idle[what] * busy["seconds"] / idle["seconds"]) / turns
        for what in ("cpu", "commits")
    }
    figures = {f"{name}_turn_cpu_ms": per_turn["cpu"] * 1_000}
    if place.commits is not None:
        figures[f"{name}_transactions_per_turn"] = per_turn["commits"]
        figures[f"{name}_commit_ms"] = place.commit_ms
    return figures


async def _spending(place: Place, work: Callable[[], Any]) -> dict[str, float]:
    async def now() -> tuple[float, float, float]:
        await pause(_STATISTICS_SECONDS)
        commits = 0 if place.commits is None else await place.commits()
        cpu = sum(cpu_seconds(pid) for pid in place.processes.values())
        return time.perf_counter(), cpu, commits

    before = await now()
    await work()
    after = await now()
    seconds, cpu, commits = (b - a for a, b in zip(before, after, strict=True))
    return {"seconds": seconds, "cpu": cpu, "commits": commits}


def rpcs_per_turn(data_dir: Path) -> float:
    """RPCs between services per turn, by the spans of those that served them."""
    turns: set[str] = set()
    rpcs = 0
    for line in (data_dir / SPAN_FILE).read_text("utf-8").splitlines():
        attributes = json.loads(line)["attributes"]
        if genai.TURN_ID in attributes:
            turns.add(attributes[genai.TURN_ID])
            rpcs += genai.RPC_METHOD in attributes
    return rpcs / max(1, len(turns))


async def new_session(address: Any, token: str) -> str:
    """A session of the token's person."""
    return (await call(address, "/v1/sessions", {}, token=token))["session_id"]


def _percentiles(
    prefix: str, whole: list[float], first: list[float], bare: float
) -> dict[str, float]:
    return {
        f"{prefix}turn_p50_ms": percentile(whole, 50),
        f"{prefix}turn_p99_ms": percentile(whole, 99),
        f"{prefix}first_text_p50_ms": percentile(first, 50),
        f"{prefix}turn_over_bare": percentile(whole, 50) / bare,
    }
