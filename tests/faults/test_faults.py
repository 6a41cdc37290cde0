"""At most once, and known: real processes that die and stop, and a network that misbehaves.

A bounded sample of what `make faults` plays (docs/faults.md), and proof that it can fail.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from minara_tools.adapters.venue_paper_http import VENUE_WRITTEN
from minara_tools.app.execute_move import CONFIRM_SENT, CONFIRM_SIGNED
from support.faults.cli import play_all
from support.faults.orders import Bug
from support.faults.plan import CELLS, POINTS, Crash, Network, Plan, Resume, Skew, plan_of
from support.faults.run import Outcome

if TYPE_CHECKING:
    from support.postgres import Cluster

KILLS = [seed for seed, (_, crash) in enumerate(CELLS) if crash is Crash.KILL]
PAUSES = [23, 27, 29]
NETWORKS = [
    Network.DROP_REQUEST,
    Network.DROP_REPLY,
    Network.TWICE_LATE,
    Network.REORDER_SECOND,
    Network.REORDER_CANCEL,
]
ON_POSTGRES = [1, 5, 6, 7, 8, 30]


Sample = Mapping[str, Outcome]

BUGS: Mapping[str, tuple[Bug, str, Network, str]] = MappingProxyType(
    {
        "resends": (Bug.RESENDS, VENUE_WRITTEN, Network.DROP_REQUEST, "was sent 2 times"),
        "sends for another": (
            Bug.RESENDS,
            CONFIRM_SENT,
            Network.FINE,
            "was sent by a process that had not placed its hold",
        ),
        "voids early": (
            Bug.VOIDS_EARLY,
            VENUE_WRITTEN,
            Network.DROP_REQUEST,
            "before its absence was proven",
        ),
        "voids what arrives": (
            Bug.VOIDS_EARLY,
            VENUE_WRITTEN,
            Network.LATE_REQUEST,
            "and the venue has its order",
        ),
        "sends early": (
            Bug.SENDS_EARLY,
            CONFIRM_SIGNED,
            Network.DROP_REQUEST,
            "was sent and is void as never sent",
        ),
    }
)
"""A planted bug, where the process dies and what the network does, and what must be found."""


def tell(outcome: Outcome) -> str:
    return f"SEED={outcome.plan.seed} ({outcome.plan.cell}): " + "; ".join(outcome.failures)


def check(outcomes: Iterable[Outcome]) -> None:
    failed = [tell(one) for one in outcomes if one.failures]
    assert not failed, "\n".join(failed)


def a_plan(point: str, network: Network) -> Plan:
    """Killed there on SQLite, with clocks that agree, and nothing else."""
    return replace(
        plan_of(0, "sqlite"),
        point=point,
        crash=Crash.KILL,
        move="buy",
        network=network,
        jump_seconds=0.0,
        sleeps=False,
        skew=Skew.NOBODY,
        skew_seconds=0.0,
        resume=Resume.AT_ONCE,
        outage_seconds=0.0,
        repeats_meanwhile=False,
        repeats_after=False,
        dies_again=False,
    )


REFUSED_AS_LATE = replace(
    a_plan("", Network.LATE_TWICE),
    crash=Crash.NONE,
    skew=Skew.VENUE,
    skew_seconds=1.9,
    jump_seconds=3.2,
    delay_seconds=0.5,
)
"""The first copy comes when the venue's clock is ahead and is refused; the second one is taken."""


@pytest.fixture(scope="module")
def sample() -> Sample:
    """The runs of this file on SQLite, played together."""
    plans: dict[str, tuple[Plan, Bug]] = {
        **{f"kill {seed}": (plan_of(seed, "sqlite"), Bug.NONE) for seed in KILLS},
        **{f"pause {seed}": (plan_of(seed, "sqlite"), Bug.NONE) for seed in PAUSES},
    }
    for network in NETWORKS:
        plans[network] = (replace(a_plan("", network), crash=Crash.NONE, move="limit"), Bug.NONE)
    plans["refused as late"] = (REFUSED_AS_LATE, Bug.NONE)
    for name, (bug, point, network, _) in BUGS.items():
        plans[name] = (a_plan(point, network), bug)
        plans[f"{point} {network}"] = (a_plan(point, network), Bug.NONE)
    outcomes = asyncio.run(play_all(plans.values(), None))
    return dict(zip(plans, outcomes, strict=True))


def test_any_500_seeds_in_a_row_hit_each_point_by_kill_and_by_pause_on_both_databases() -> None:
    for first in (1, 77, 1_000_003):
        plans = [plan_of(seed) for seed in range(first, first + 500)]
        for point in POINTS:
            for crash in (Crash.KILL, Crash.PAUSE):
                cell = [one for one in plans if (one.point, one.crash) == (point, crash)]
                assert len(cell) >= 20
                assert (
                    min(
                        sum(one.database == name for one in cell)
                        for name in ("sqlite", "postgresql")
                    )
                    >= 10
                )


def test_a_seed_is_always_the_same_plan() -> None:
    assert [plan_of(seed) for seed in range(200)] == [plan_of(seed) for seed in range(200)]
    assert replace(plan_of(7), database="postgresql") == plan_of(7, "postgresql")


def test_a_kill_at_every_point_leaves_one_order_or_none_and_books_that_know(sample: Sample) -> None:
    outcomes = [sample[f"kill {seed}"] for seed in KILLS]
    check(outcomes)
    assert {one.plan.point for one in outcomes if one.was_met} == set(POINTS)


def test_a_pause_past_every_validity_leaves_one_order_or_none(sample: Sample) -> None:
    outcomes = [sample[f"pause {seed}"] for seed in PAUSES]
    check(outcomes)
    assert all(one.was_met for one in outcomes)


def test_a_bad_network_leaves_one_order_or_none(sample: Sample) -> None:
    outcomes = [sample[network] for network in NETWORKS]
    check(outcomes)
    assert all(one.reached_venue for one in outcomes)


def test_what_the_venue_refused_as_late_is_not_void_while_its_clock_may_run_back(
    sample: Sample,
) -> None:
    outcome = sample["refused as late"]
    check([outcome])
    assert outcome.result == "done"


@pytest.mark.postgres
def test_a_second_replica_recovers_meanwhile(postgres_cluster: "Cluster") -> None:
    plans = (plan_of(seed, "postgresql") for seed in ON_POSTGRES)
    outcomes = asyncio.run(play_all(plans, postgres_cluster))
    check(outcomes)
    assert all(one.was_met for one in outcomes)


@pytest.mark.parametrize(("name", "found"), [(name, found) for name, (*_, found) in BUGS.items()])
def test_a_planted_bug_is_found(sample: Sample, name: str, found: str) -> None:
    assert sample[name].was_met
    assert found in tell(sample[name])


def test_the_same_plans_without_a_bug_are_sound(sample: Sample) -> None:
    check(sample[f"{point} {network}"] for _, point, network, _ in BUGS.values())
