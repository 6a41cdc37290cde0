"""`make bench` is a program: it says what it measured, beside what was wanted, and never fails."""

import json
import subprocess
import sys
from pathlib import Path

from support.nursery import TESTS, inherited


def benched(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=TESTS.parent,
        env=inherited() | {"PYTHONPATH": str(TESTS), "HOME": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_bench_writes_its_figures_and_shows_them_beside_the_targets(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    shown = benched("--only", "embedded", "--turns", "3", "--json", str(file))
    written = json.loads(file.read_text("utf-8"))
    assert written["not_measured"] == {}
    assert written["figures"]["turn_p50_ms"] > 0
    assert written["figures"]["rpcs_per_turn"] >= 5
    assert {"machine", "python", "commit", "load", "missed"} <= written.keys()
    line = next(line for line in shown.splitlines() if "turn p50, ms" in line)
    assert "≤        5" in line
    assert ("MISSED" in line) is ("turn_p50_ms" in written["missed"])
