"""The database serves whichever loop calls it, uvloop too."""

import asyncio

import pytest
import sqlalchemy as sa
import uvloop

from minara_runtime.database import Database, Dialect
from support.databases import RUNTIME_TABLES, PostgresShelf, SqliteShelf

INSERT = sa.text("INSERT INTO counters (name, value) VALUES (:name, 0)")
COUNT = sa.text("SELECT count(*) FROM counters")


def test_uvloop_and_asyncio_see_the_same(dialect: Dialect, request: pytest.FixtureRequest) -> None:
    shelf: SqliteShelf | PostgresShelf = request.getfixturevalue(
        "sqlite_shelf" if dialect == "sqlite" else "postgres_shelf"
    )

    async def add(url: str, name: str) -> int:
        database = Database.open(url)
        await database.transaction(lambda c: c.execute(INSERT, {"name": name}))
        cancelled = asyncio.create_task(
            database.transaction(lambda c: c.execute(INSERT, {"name": f"{name}-cancelled"}))
        )
        cancelled.cancel()
        await asyncio.wait([cancelled])
        count = await database.read(lambda c: c.execute(COUNT).scalar_one())
        await database.aclose()
        return count

    url = asyncio.run(shelf.new(RUNTIME_TABLES))
    assert asyncio.run(add(url, "asyncio")) == 1
    assert uvloop.run(add(url, "uvloop")) == 2
    asyncio.run(shelf.remove(url))
