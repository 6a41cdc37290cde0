"""One part of the bench in a process of its own: `python -m bench.part NAME --turns N`.

The last line it prints is its figures as JSON. Parts that need what is not here print
`{"skipped": reason}` instead.
"""

import argparse
import json
import os
import resource
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import uvloop

from bench.gates import measure_gates
from bench.model import PacedModel, a_paced_model
from bench.peers.compared import PYTHON, measure_peers
from bench.places import five_processes, serving_process
from bench.process import measure_process
from bench.slow_client import measure_slow_client
from bench.streams import measure_events, measure_open_streams
from bench.telemetry import measure_telemetry
from bench.turns import measure_embedded, measure_offline_model, measure_place
from support.cluster import Port
from support.model_server import settings_of
from support.postgres import PostgresMissing

Figures = dict[str, float]
EVENTS_PER_TURN = 50
_HOST = "127.0.0.1"


async def _embedded(folder: Path, turns: int) -> Figures:
    figures = await measure_embedded(folder / "turns", turns)
    return figures | await measure_offline_model(folder / "model", min(turns, 100))


async def _gates(folder: Path, turns: int) -> Figures:
    return await measure_gates(folder, turns)


async def _tcp_sqlite(folder: Path, turns: int) -> Figures:
    async with five_processes(folder) as place:
        figures = await measure_place(place, folder, turns, "five_sqlite")
        memory = place.memory()
    return figures | {f"five_resident_mb_{name}": size for name, size in memory.items()}


async def _tcp_postgres(folder: Path, turns: int) -> Figures:
    async with five_processes(folder, on_postgres=True) as place:
        return await measure_place(place, folder, turns, "five_postgres")


async def _two_replicas(folder: Path, turns: int) -> Figures:
    async with five_processes(folder, on_postgres=True, replicas=2) as place:
        return await measure_place(place, folder, turns, "replicas_postgres")


async def _events(folder: Path, turns: int) -> Figures:
    events = turns * EVENTS_PER_TURN
    async with serving_process(folder / "embedded") as place:
        figures = await measure_events(place, events, "embedded")
        figures |= await measure_slow_client(place, events)
    async with five_processes(folder / "five") as place:
        return figures | await measure_events(place, events, "five")


async def _streams(folder: Path, turns: int) -> Figures:
    streams = 1_000 if turns >= 100 else 10 * turns
    figures: Figures = {}
    for name, started in (("embedded", serving_process), ("five", five_processes)):
        port = Port()
        model = PacedModel(pieces=100, every_seconds=0.1, slow_pieces=5, slow_seconds=3.0)
        settings = {"MINARA_OPENAI_API_KEY": "none", **settings_of(_HOST, port)}
        async with (
            a_paced_model(port, model),
            started(folder / name, environment=settings) as place,
        ):
            figures |= await measure_open_streams(place, model, streams, name)
    return figures


PARTS: Mapping[str, Callable[[Path, int], Awaitable[Figures]]] = MappingProxyType(
    {
        "embedded": _embedded,
        "gates": _gates,
        "start": lambda folder, turns: measure_process(folder),
        "telemetry": measure_telemetry,
        "five-sqlite": _tcp_sqlite,
        "five-postgres": _tcp_postgres,
        "replicas": _two_replicas,
        "events": _events,
        "streams": _streams,
        "peers": measure_peers,
    }
)


async def _measured(name: str, turns: int) -> dict[str, float | str]:
    if name == "peers" and not PYTHON.exists():
        return {"skipped": "no .venv-peers here: `make bench-peers` installs and measures them"}
    with tempfile.TemporaryDirectory(prefix="minara-bench-") as folder:
        try:
            return {**await PARTS[name](Path(folder), turns)}
        except PostgresMissing as missing:
            return {"skipped": str(missing)}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("name", choices=PARTS)
    asked.add_argument("--turns", type=int, required=True)
    given = asked.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name in [name for name in os.environ if name.startswith("MINARA_")]:
        del os.environ[name]
    print(json.dumps(uvloop.run(_measured(given.name, given.turns))))


if __name__ == "__main__":
    main()
