"""Fixtures that contract suites of several files share."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
