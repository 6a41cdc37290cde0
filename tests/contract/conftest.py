"""Fixtures that contract suites of several files share."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from minara_workspace.app.ports import Sessions
    from support.orchestrator.turn_stores import Pair
    from support.tools.venue_places import Place


@pytest.fixture(
    params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres), "http"]
)
async def place(request: pytest.FixtureRequest) -> AsyncGenerator["Place"]:
    """Every implementation of Venue, in a world of its own."""
    from support.databases import Databases
    from support.tools.venue_places import a_fake_place, a_paper_place, a_served_place

    if request.param == "fake":
        yield a_fake_place()
        return
    is_postgres = request.param == "postgresql"
    shelf = request.getfixturevalue("postgres_shelf" if is_postgres else "sqlite_shelf")
    databases = Databases(shelf)
    try:
        if request.param == "http":
            async with a_served_place(databases) as served:
                yield served
        else:
            yield await a_paper_place(databases)
    finally:
        await databases.aclose()


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def sessions(request: pytest.FixtureRequest) -> AsyncGenerator["Sessions"]:
    """Every implementation of the workspace's Sessions, empty."""
    from minara_workspace.adapters.sql_sessions import VERSIONS, SqlSessions
    from support.databases import Databases
    from support.workspace_sessions import FakeSessions

    if request.param == "fake":
        yield FakeSessions()
        return
    shelf = request.getfixturevalue(
        "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    )
    databases = Databases(shelf)
    yield SqlSessions(await databases.open(VERSIONS))
    await databases.aclose()


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def pair(request: pytest.FixtureRequest) -> AsyncGenerator["Pair"]:
    """Every implementation of the orchestrator's TurnStore, TurnEvents and SessionWriters."""
    from support.orchestrator.turn_stores import a_fake_pair, a_real_pair

    if request.param == "fake":
        yield a_fake_pair()
        return
    name = "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    async with a_real_pair(request.getfixturevalue(name)) as made:
        yield made
