"""What a series of runs leaves behind: a line of JSON for each, and a table."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from support.faults.plan import CELLS, Crash
from support.faults.run import Outcome


def line_of(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome))


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The table: runs, crash points met, networks met, results, failures."""
    failed = [one for one in outcomes if one.failures]
    databases = Counter(one.plan.database for one in outcomes)
    parts = [
        f"{len(outcomes)} runs in {seconds:.0f} s: "
        + ", ".join(f"{count} on {name}" for name, count in sorted(databases.items())),
        *_table("crash points (planned, met)", _cells(outcomes)),
        *_table("network (planned, a request left)", _networks(outcomes)),
        *_table("clocks", _rows(f"skew of {one.plan.skew.value}" for one in outcomes)),
        *_table("repeated", _rows(_repeats(outcomes))),
        *_table("results", _rows(one.result for one in outcomes)),
        f"failures: {len(failed)}",
        *(f"  SEED={one.plan.seed}: {one.failures[0]}" for one in failed),
    ]
    return "\n".join(parts) + "\n"


def write(outcomes: Sequence[Outcome], place: Path, seconds: float) -> str:
    """Write `place` and, beside it, the table, which is returned."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(f"{line_of(one)}\n" for one in outcomes))
    table = summary(outcomes, seconds)
    place.with_suffix(".txt").write_text(table)
    return table


def _cells(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    planned = Counter(one.plan.cell for one in outcomes)
    met = Counter(one.plan.cell for one in outcomes if one.was_met)
    names = dict.fromkeys(
        f"{point} {crash.value}" if point else "network only" for point, crash in CELLS
    )
    return [
        (name, f"{planned[name]:>4}" + ("" if name == "network only" else f"{met[name]:>5}"))
        for name in names
    ]


def _networks(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    planned = Counter(one.plan.network.value for one in outcomes)
    met = Counter(one.plan.network.value for one in outcomes if one.reached_venue)
    return [(name, f"{planned[name]:>4}{met[name]:>5}") for name in sorted(planned)]


def _repeats(outcomes: Iterable[Outcome]) -> Iterable[str]:
    for one in outcomes:
        if one.plan.repeats_meanwhile:
            yield "decided again meanwhile"
        if one.plan.repeats_after:
            yield "decided again afterwards"
        if one.plan.crash is Crash.PAUSE and one.plan.sleeps:
            yield "monotonic clock slept"
        if one.plan.dies_again:
            yield "killed again while recovering"
        if one.plan.outage_seconds:
            yield "venue out while recovering"


def _rows(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, f"{count:>4}") for name, count in sorted(Counter(names).items())]


def _table(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    return [title, *(f"  {name:<28}{counts}" for name, counts in rows)]
