"""Replicas that start at once bring the tables up to date once, and refuse what is newer."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from minara_gateway.store import VERSIONS as GATEWAY_VERSIONS
from minara_orchestrator.adapters.sql_turns import VERSIONS as ORCHESTRATOR_VERSIONS
from minara_runtime.database import Database
from minara_skills.adapters.sql_sessions import VERSIONS as SKILLS_VERSIONS
from minara_tools.adapters.venue_paper import PAPER_VERSIONS
from minara_tools.main import VERSIONS as TOOLS_VERSIONS
from minara_workspace.adapters.sql_sessions import VERSIONS as WORKSPACE_VERSIONS
from support.cluster import DATABASES, SERVICES, Cluster
from support.cluster_invariants import assert_sound
from support.cluster_people import a_talk
from support.cluster_stages import MakeCluster
from support.cluster_tables import first_column, write

VERSIONS = {
    "gateway": GATEWAY_VERSIONS,
    "orchestrator": ORCHESTRATOR_VERSIONS,
    "skills": SKILLS_VERSIONS,
    "tools": TOOLS_VERSIONS,
    "paper": PAPER_VERSIONS,
    "workspace": WORKSPACE_VERSIONS,
}
FIRST = "0001"
NEWER = "9999"


def newest(versions: Path) -> str:
    return max(path.name.partition("_")[0] for path in versions.glob("0*.py"))


async def revisions(urls: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, url in urls.items():
        found[name] = await first_column(url, "SELECT version_num FROM alembic_version")
    return found


async def make_first_tables(urls: Mapping[str, str], folder: Path) -> None:
    """What the first version of every service would have left."""
    for name, versions in VERSIONS.items():
        first = folder / name
        first.mkdir()
        for path in versions.glob(f"{FIRST}_*.py"):
            shutil.copy(path, first)
        database = Database.open(urls[name])
        await database.migrate(first)
        await database.aclose()


async def talk(cluster: Cluster) -> None:
    """A few people buy something, and nothing of it is amiss."""
    async with a_talk(cluster, 4) as crowd:
        assert crowd.failures == {}
        await assert_sound(cluster, crowd.people)


async def test_two_replicas_of_everything_start_at_once_on_empty_databases(
    urls: Mapping[str, str], make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(urls)
    await cluster.start()
    assert await revisions(urls) == {name: [newest(VERSIONS[name])] for name in DATABASES}
    await talk(cluster)


async def test_two_replicas_of_everything_start_at_once_on_the_first_tables(
    urls: Mapping[str, str], make_cluster: MakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "versions").mkdir()
    await make_first_tables(urls, tmp_path / "versions")
    assert await revisions(urls) == {name: [FIRST] for name in DATABASES}
    await write(
        urls["tools"],
        "INSERT INTO sessions (session_id, user_id, epoch) VALUES ('old', 'somebody', 7)",
    )
    cluster = make_cluster(urls)
    await cluster.start()
    assert await revisions(urls) == {name: [newest(VERSIONS[name])] for name in DATABASES}
    assert await first_column(
        urls["tools"], "SELECT epoch FROM sessions WHERE session_id = 'old'"
    ) == [7]
    await talk(cluster)


@pytest.mark.parametrize("newer", DATABASES)
async def test_who_is_older_than_its_database_says_so_and_ends(
    urls: Mapping[str, str], make_cluster: MakeCluster, tmp_path: Path, newer: str
) -> None:
    (tmp_path / "versions").mkdir()
    await make_first_tables(urls, tmp_path / "versions")
    await write(urls[newer], f"UPDATE alembic_version SET version_num = '{NEWER}'")
    service = newer if newer in SERVICES else "tools"
    for replica in make_cluster(urls).replicas_of(service):
        replica.start()
        assert (await replica.ended()).code == 1
        said = replica.tail(lines=100)
        assert [line.partition(":")[0] for line in said.splitlines()][-1] == "SCHEMA_TOO_NEW"
        assert f"the revision {NEWER}" in said
        assert "Traceback" not in said
    assert (await revisions(urls))[newer] == [NEWER]
