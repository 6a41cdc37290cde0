"""`make bench`: what Minara itself adds to a turn, how it starts, how much memory it takes.

Prints a table beside the targets of the design and writes build/bench.json. Numbers of a shared
machine are noisy: compare ratios within one run.
"""

import json
import sys
import tempfile
from pathlib import Path

import uvloop

from bench.gates import measure_gates
from bench.process import measure_process
from bench.turns import measure_turns

OUTPUT = Path("build") / "bench.json"
TURNS = 300

TARGETS = {
    "turn_p50_ms": 5.0,
    "turn_p99_ms": 20.0,
    "first_text_p50_ms": 4.0,
    "gates_p50_ms": 1.0,
    "start_to_first_answer_s": 4.0,
    "resident_mb": 250.0,
}


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    with tempfile.TemporaryDirectory(prefix="minara-bench-") as folder:
        figures = uvloop.run(measure_turns(Path(folder) / "turns", turns))
        figures |= uvloop.run(measure_gates(Path(folder) / "gates", turns))
        figures["gates_over_bare"] = figures["gates_fsync_p50_ms"] / figures["bare_p50_ms"]
        figures |= uvloop.run(measure_process(Path(folder) / "process"))
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    print(f"{'figure':34}{'measured':>12}{'target':>10}  of target")
    for name, value in figures.items():
        target = TARGETS.get(name)
        beside = "" if target is None else f"{target:>10g}{value / target:>10.1f}x"
        print(f"{name:34}{value:>12.2f}{beside}")
    print("a turn: one tool call, a model that answers at once, everything durable and audited")
    print("bare: the same server, one fsynced commit and ten frames, taken between the turns")
    print("gates: a money call with a warm fund context, its gates, stages and audit commit; the")
    print("       target is without the wait for the disk, gates_fsync and the ratio are with it")
    print(f"written to {OUTPUT}")


main()
