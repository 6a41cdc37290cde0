"""Our embedded turn beside those of other frameworks, in batches that take turns."""

import asyncio
import json
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from bench.turns import embedded_settings, new_session
from bench.wire import percentile, turn
from minara_gateway.embedded import run_embedded
from minara_gateway.serving import bind_unix, serving
from minara_llm.scripted import ScriptedModel, calls, says
from minara_runtime import telemetry
from minara_runtime.collector import leave_to_live

PEERS = ("langchain", "langgraph", "openai-agents", "pydantic-ai")
PYTHON = Path(".venv-peers") / "bin" / "python"
BATCH = 10
_WARM_UP_BATCHES = 2


async def measure_peers(data_dir: Path, turns: int) -> dict[str, float]:
    """Milliseconds a turn (p50, and CPU), ours and theirs, and theirs over ours. A peer runs in a
    process of its own and waits while others are measured, so that noise meets all alike."""
    batches = max(1, turns // BATCH) + _WARM_UP_BATCHES
    wanted = batches * BATCH
    scripts = [
        s
        for _ in range(wanted)
        for s in (calls(("get_price", {"symbol": "BTC"})), says("It is so."))
    ]
    settings = embedded_settings(data_dir)
    traces = telemetry.configure(settings.gateway, "minara")
    spent: dict[str, list[float]] = {name: [] for name in ("minara", *PEERS)}
    cpu = dict.fromkeys(spent, 0.0)
    peers = {name: await _peer(name) for name in PEERS}
    async with run_embedded(settings, telemetry=traces, model=ScriptedModel(scripts)) as engine:
        socket, token = data_dir / "bench.sock", engine.gateway.token
        async with serving(engine.gateway.app, bind_unix(socket)):
            leave_to_live()
            for number in range(batches):
                session_id = await new_session(socket, token)
                begin = time.process_time()
                ours = [
                    (await turn(socket, token=token, session_id=session_id)).whole_ms
                    for _ in range(BATCH)
                ]
                answers: dict[str, Any] = {"minara": {"ms": ours, "cpu_ms": _since(begin)}}
                answers |= {name: await _asked(peer) for name, peer in peers.items()}
                if number >= _WARM_UP_BATCHES:
                    for name, answer in answers.items():
                        spent[name] += answer["ms"]
                        cpu[name] += answer["cpu_ms"]
    traces.close()
    for peer in peers.values():
        assert peer.stdin is not None
        peer.stdin.close()
        await peer.wait()
    return _figures(spent, cpu)


def _figures(spent: dict[str, list[float]], cpu: dict[str, float]) -> dict[str, float]:
    ours, ours_cpu = percentile(spent["minara"], 50), cpu["minara"]
    figures: dict[str, float] = {}
    for name, values in spent.items():
        figures[f"{name}_beside_p50_ms"] = percentile(values, 50)
        figures[f"{name}_beside_cpu_ms"] = cpu[name] / len(values)
        if name != "minara":
            figures[f"{name}_over_minara"] = percentile(values, 50) / ours
            figures[f"{name}_over_minara_cpu"] = cpu[name] / ours_cpu
    return figures


def _since(begin: float) -> float:
    return (time.process_time() - begin) * 1_000


async def _peer(name: str) -> Process:
    program = Path(__file__).parent / "turns.py"
    return await asyncio.create_subprocess_exec(
        PYTHON, "-W", "ignore", program, name, stdin=PIPE, stdout=PIPE, limit=2**20
    )


async def _asked(peer: Process) -> dict[str, Any]:
    assert peer.stdin is not None
    assert peer.stdout is not None
    peer.stdin.write(f"{BATCH}\n".encode())
    line = await peer.stdout.readline()
    assert line, "a peer ended"
    return json.loads(line)
