"""The cached prefix, by a provider's own accounting: ten turns with tools, activation, compaction.

The figures are printed (`-rP`). The fixture and what is counted: `support.cached_session`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minara_core.clock import SystemClock
from minara_core.ids import UserId
from minara_llm.wire.http import serving
from minara_llm.wire.provider import Provider
from support.cached_session import (
    Figures,
    SessionBrain,
    furnish,
    measure,
    play,
    read_figures,
    settings,
)
from support.cluster import a_cluster
from support.installations import Processes, finds_orchestrator, new_person
from support.nursery import Nursery
from support.postgres import Cluster

APIS = ("anthropic", "chat", "responses")
LEAST_SHARE = 0.9


def check(figures: Figures, label: str) -> None:
    print(figures.line(label))
    assert figures.requests == 30
    assert figures.changed_prefixes == 0
    assert figures.compactions >= 1
    assert figures.broken == figures.compactions, "only a compaction may rewrite what was sent"
    assert figures.share >= LEAST_SHARE
    assert 2 <= figures.fewest_skills <= figures.most_skills <= 6


@pytest.mark.parametrize("api", APIS)
async def test_nine_tenths_of_the_input_can_be_read_from_the_cache(
    tmp_path: Path, api: str
) -> None:
    check(await measure(tmp_path, api), f"embedded, {api}")


def test_the_prefix_is_the_same_whatever_the_hash_seed(tmp_path: Path) -> None:
    seeds = ("random", "1", "4242")
    tests = Path(__file__).parents[1]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "support.cached_session", str(tmp_path / seed), "anthropic"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tests,
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed},  # noqa: TID251
        )
        for seed in seeds
    ]
    found = [read_figures(each.communicate(timeout=60)[0]) for each in running]
    for seed, figures in zip(seeds, found, strict=True):
        check(figures, f"PYTHONHASHSEED={seed}")
    assert len({figures.prefix for figures in found}) == 1


async def test_two_replicas_of_everything_send_one_prefix(
    tmp_path: Path, nursery: Nursery, postgres_cluster: Cluster
) -> None:
    provider = Provider(SessionBrain(), SystemClock())
    async with (
        serving(provider),
        a_cluster(
            nursery,
            tmp_path,
            replicas=2,
            postgres=postgres_cluster,
            environment=settings(provider.url, "anthropic"),
        ) as cluster,
    ):
        installation = Processes(cluster)
        await installation.settled(finds_orchestrator)
        minara = await new_person(installation, user_id=UserId("ada"))
        folder = cluster.data_dir / "workspaces" / minara.user_id
        await furnish(cluster.data_dir, folder, minara.user_id)
        try:
            check(await play(minara, provider), "two replicas, anthropic")
        finally:
            await minara.aclose()
            installation.close()
