"""The command behind `make faults`."""

import argparse
import asyncio
import json
import signal
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from minara_core.clock import SystemClock
from minara_runtime.database import Dialect
from support.faults.lab import Lab, a_lab
from support.faults.orders import Bug
from support.faults.plan import Plan, plan_of
from support.faults.report import write
from support.faults.run import Outcome, play
from support.postgres import Cluster, SharedCluster

AT_ONCE = 3
"""Runs at a time: most of a run is waiting."""


async def play_all(
    plans: Iterable[Plan | tuple[Plan, Bug]],
    cluster: Cluster | None,
    *,
    at_once: int = AT_ONCE,
    on_done: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[Outcome, ...]:
    """Play all plans, some with a planted bug; what came of each, in their order.

    A plan on PostgreSQL needs the cluster."""
    waiting = [one if isinstance(one, tuple) else (one, Bug.NONE) for one in plans]
    order = dict(enumerate(waiting))
    done: dict[int, Outcome] = {}

    async def work(lab: Lab) -> None:
        while order:
            number = min(order)
            plan, bug = order.pop(number)
            done[number] = await play(plan, lab, bug)
            on_done(done[number])

    async with a_lab(cluster) as lab, asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(work(lab))
    return tuple(done[number] for number in sorted(done))


def main(arguments: Sequence[str] | None = None) -> int:
    """Play N seeds and write what came of them; 1 when a run failed."""
    asked = _asked(arguments)
    database: Dialect | None = "postgresql" if asked.postgres else None
    if asked.sqlite:
        database = "sqlite"
    plans = [plan_of(seed, database) for seed in range(asked.seed, asked.seed + asked.runs)]
    if asked.runs == 1:
        print(json.dumps(asdict(plans[0]), indent=2))
    clock = SystemClock()
    begin = clock.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also then nothing is left behind
    with tempfile.TemporaryDirectory(prefix="minara-faults-") as name:
        shared = SharedCluster(Path(name))
        needs_server = any(plan.database == "postgresql" for plan in plans)
        try:
            cluster = shared.join() if needs_server else None
            outcomes = asyncio.run(
                play_all(plans, cluster, at_once=asked.at_once, on_done=_tell(len(plans)))
            )
        finally:
            shared.leave()
    place = Path(asked.out or f"build/faults-{asked.seed}.jsonl")
    print(write(outcomes, place, clock.monotonic() - begin))
    print(f"written to {place}")
    failed = [one for one in outcomes if one.failures]
    for one in failed:
        print(f"SEED={one.plan.seed} failed:", *one.failures, sep="\n  ")
    return 1 if failed else 0


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many seeds (N)")
    parser.add_argument("--seed", type=int, default=1, help="the first of them (SEED)")
    parser.add_argument("--out", help="where the lines go; build/faults-<seed>.jsonl")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="runs at a time")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--postgres", action="store_true", help="every run on PostgreSQL")
    only.add_argument("--sqlite", action="store_true", help="every run on SQLite")
    return parser.parse_args(arguments)


def _tell(total: int) -> Callable[[Outcome], None]:
    count = 0

    def tell(outcome: Outcome) -> None:
        nonlocal count
        count += 1
        plan = outcome.plan
        if outcome.failures or count % 25 == 0 or total <= 25:
            verdict = "FAILED" if outcome.failures else "ok"
            told = f"{plan.cell}, {plan.network.value}, {plan.database} → {outcome.result}"
            print(f"{count}/{total} SEED={plan.seed} {verdict} {outcome.seconds} s: {told}")

    return tell
