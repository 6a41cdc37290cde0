"""Two replicas of each service as processes on one PostgreSQL, shared by the tests of a worker."""

from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from support.cluster import Cluster, new_databases
from support.cluster_stages import MakeCluster, Stage, Stages
from support.nursery import Nursery


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Generator[Stages]:
    made = Stages(tmp_path_factory.mktemp("stages"), nursery)
    yield made
    made.close()


@pytest.fixture
async def stage(stages: Stages) -> Stage:
    return await stages.running()


@pytest.fixture
async def urls(stages: Stages) -> Mapping[str, str]:
    """An empty database for each service."""
    return await new_databases(stages.postgres.cluster)


@pytest.fixture
def make_cluster(nursery: Nursery, tmp_path: Path) -> Generator[MakeCluster]:
    """Makes clusters of two replicas on databases of a test's own; they are not started."""
    made: list[Cluster] = []

    def make(urls: Mapping[str, str]) -> Cluster:
        folder = tmp_path / f"cluster-{len(made)}"
        made.append(Cluster(nursery, folder, replicas=2, databases=urls))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
