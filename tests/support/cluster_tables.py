"""Reads and changes tables beside the services that own them."""

from typing import Any

import sqlalchemy as sa

from minara_runtime.database import Database


async def first_column(url: str, query: str) -> list[Any]:
    """The first column of what a query finds."""
    database = Database.open(url)
    rows = await database.read(lambda c: c.execute(sa.text(query)).scalars().all())
    await database.aclose()
    return list(rows)


async def write(url: str, statement: str) -> None:
    """Run and commit a statement."""
    database = Database.open(url)
    await database.transaction(lambda c: c.execute(sa.text(statement)))
    await database.aclose()
