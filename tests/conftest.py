"""Fixtures that several suites share.

The database's modules are imported by the fixtures that use them, so that the suites of pure code
start without them.
"""

import sys
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.network import forbid_the_network

if TYPE_CHECKING:
    from minara_runtime.database import Database, Dialect
    from support.databases import Databases, PostgresShelf, SqliteShelf
    from support.nursery import Nursery
    from support.postgres import Cluster


# A rule holds however slow the machine is.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--deployments",
        default="embedded,processes,replicas",
        help="where tests/e2e runs: embedded, processes, replicas, compose",
    )
    parser.addoption(
        "--postgres",
        metavar="URL",
        help="a PostgreSQL superuser's URL, to use this server and start none",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the processes of running clusters printed last."""
    report = yield
    cluster = sys.modules.get("support.cluster")
    if report.failed and cluster is not None:
        report.sections.append(("processes", cluster.live_tails()))
    return report


@pytest.fixture(scope="session", autouse=True)
def network_kill_switch() -> None:
    forbid_the_network()


@pytest.fixture(scope="session")
def postgres_cluster(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str, pytestconfig: pytest.Config
) -> Generator["Cluster"]:
    """The throwaway server; parallel workers share one, through the folder above their own."""
    from support.postgres import Cluster, SharedCluster

    if given := pytestconfig.getoption("--postgres"):
        yield Cluster.at(given)
        return
    own = tmp_path_factory.getbasetemp()
    shared = SharedCluster(own if worker_id == "master" else own.parent)
    yield shared.join()
    shared.leave()


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Generator["Nursery"]:
    """Starts the processes of clusters."""
    from support.nursery import a_nursery

    with a_nursery(tmp_path_factory.mktemp("nursery")) as nursery:
        yield nursery


@pytest.fixture(scope="session")
def postgres_shelf(postgres_cluster: "Cluster") -> "PostgresShelf":
    from support.databases import PostgresShelf

    return PostgresShelf(postgres_cluster)


@pytest.fixture(scope="session")
def sqlite_shelf(tmp_path_factory: pytest.TempPathFactory) -> "SqliteShelf":
    from support.databases import SqliteShelf

    return SqliteShelf(tmp_path_factory.mktemp("databases"))


@pytest.fixture(
    params=[
        pytest.param("sqlite", id="sqlite"),
        pytest.param("postgresql", id="postgresql", marks=pytest.mark.postgres),
    ]
)
def dialect(request: pytest.FixtureRequest) -> "Dialect":
    """Runs the test once on each dialect."""
    return request.param


@pytest.fixture
async def databases(
    dialect: "Dialect", request: pytest.FixtureRequest
) -> AsyncGenerator["Databases"]:
    """Opens databases of the dialect: `await databases.open(versions)`."""
    from support.databases import Databases

    made = Databases(
        request.getfixturevalue("sqlite_shelf" if dialect == "sqlite" else "postgres_shelf")
    )
    yield made
    await made.aclose()


@pytest.fixture
async def sqlite_databases(sqlite_shelf: "SqliteShelf") -> AsyncGenerator["Databases"]:
    """As `databases`, on SQLite alone: for what does not depend on the dialect."""
    from support.databases import Databases

    made = Databases(sqlite_shelf)
    yield made
    await made.aclose()


@pytest.fixture
async def database(databases: "Databases") -> "Database":
    """A database with the lease and audit tables, `counters` and `entries`."""
    from support.databases import RUNTIME_TABLES

    return await databases.open(RUNTIME_TABLES)
