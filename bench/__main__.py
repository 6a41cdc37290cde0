"""`make bench`: what Minara itself adds to a turn, how its streams scale, how it starts.

Each part runs in a process of its own, one after the other. Prints a table beside the targets of
the design and writes the figures as JSON. Numbers of a shared machine are noisy: compare ratios
within one run. A missed target is marked; it never fails the run.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import load, machine
from bench.part import PARTS
from bench.table import NOTES, lines, missed

OUTPUT = Path("build") / "bench.json"
TURNS = 300
QUICK_TURNS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures by name; by part why it was not measured, and the load average after it."""

    figures: dict[str, float]
    skipped: dict[str, str]
    load: dict[str, float]


def _arguments() -> argparse.Namespace:
    asked = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    asked.add_argument("--turns", type=int, default=TURNS, help="turns of each part")
    asked.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    asked.add_argument("--json", type=Path, default=OUTPUT, help="where the figures go")
    asked.add_argument("--quick", action="store_true", help=f"{QUICK_TURNS} turns: a first look")
    return asked.parse_args()


def _part(name: str, turns: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.part", name, "--turns", str(turns)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return {"skipped": f"ended with {done.returncode}; what it said is above"}
    return json.loads(done.stdout.splitlines()[-1])


def _measure(names: Sequence[str], turns: int) -> Measured:
    figures: dict[str, float] = {}
    skipped: dict[str, str] = {}
    loads: dict[str, float] = {}
    for name in names:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        found = _part(name, turns)
        loads[name] = load()
        if "skipped" in found:
            skipped[name] = found["skipped"]
        else:
            figures |= found
    return Measured(figures=figures, skipped=skipped, load=loads)


def main() -> None:
    given = _arguments()
    turns = QUICK_TURNS if given.quick else given.turns
    about = machine()
    measured = _measure(given.only, turns)
    document = {
        **about,
        "turns": turns,
        "load": measured.load,
        "figures": measured.figures,
        "missed": missed(measured.figures),
        "not_measured": measured.skipped,
    }
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    for key, value in about.items():
        print(f"{key:10}{value}")
    print(f"load      {max(measured.load.values()):.1f} at most, {turns} turns a part\n")
    print("\n".join(lines(measured.figures)))
    for name, reason in measured.skipped.items():
        print(f"not measured: {name}: {reason}")
    print(f"\n{NOTES}\nwritten to {given.json}")


if __name__ == "__main__":
    main()
