"""Brief transactions: the promises of all others, and on SQLite no thread and no wait."""

import os
import sqlite3
import threading

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from minara_core.errors import Unavailable
from minara_core.reasons import ErrorReason
from minara_runtime.database import Database
from support.databases import RUNTIME_TABLES, Databases

COUNTERS = sa.Table(
    "counters",
    sa.MetaData(),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger),
)
INSERT = sa.insert(COUNTERS)
NAMES = sa.select(COUNTERS.c.name).order_by(COUNTERS.c.name)


async def put(database: Database, name: str, *, brief: bool = True) -> None:
    row = {"name": name, "value": 0}
    await database.transaction(lambda c: c.execute(INSERT, row), brief=brief)


async def names(database: Database, *, brief: bool = True) -> list[str]:
    return list(await database.read(lambda c: c.execute(NAMES).scalars().all(), brief=brief))


async def test_brief_and_other_transactions_see_each_other(database: Database) -> None:
    expected: list[str] = []
    for number in range(150):
        await put(database, f"{number:03}", brief=number % 3 != 0)
        expected.append(f"{number:03}")
        assert await names(database, brief=number % 2 == 0) == expected


async def test_a_brief_transaction_that_raises_leaves_nothing(database: Database) -> None:
    await put(database, "first", brief=False)

    def fail(connection: sa.Connection) -> None:
        connection.execute(INSERT, {"name": "a", "value": 1})
        raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        await database.transaction(fail, brief=True)
    with pytest.raises(exc.IntegrityError):
        await put(database, "first")
    await put(database, "second")
    assert await names(database) == ["first", "second"]


async def test_a_brief_read_cannot_write(database: Database) -> None:
    await put(database, "first", brief=False)
    with pytest.raises(exc.DBAPIError):
        await database.read(lambda c: c.execute(INSERT, {"name": "a", "value": 1}), brief=True)
    assert await names(database) == ["first"]


async def test_what_is_brief_survives_its_owner(databases: Databases) -> None:
    url = await databases.url(RUNTIME_TABLES)
    first = databases.reopen(url, durable=True)
    await put(first, "a", brief=False)
    await put(first, "b")
    await first.aclose()
    assert await names(databases.reopen(url)) == ["a", "b"]


async def test_a_closed_database_refuses_what_is_brief(databases: Databases) -> None:
    database = await databases.open(RUNTIME_TABLES)
    await put(database, "a", brief=False)
    await put(database, "b")
    await database.aclose()
    with pytest.raises(Unavailable) as refused:
        await put(database, "c")
    assert refused.value.reason is ErrorReason.SHUTTING_DOWN


async def test_a_brief_one_runs_on_the_callers_thread_unless_another_writes(
    sqlite_databases: Databases,
) -> None:
    url = await sqlite_databases.url(RUNTIME_TABLES)
    database = sqlite_databases.reopen(url)
    await put(database, "first", brief=False)
    here = threading.get_ident()
    assert await database.transaction(lambda _: threading.get_ident(), brief=True) == here

    other = sqlite3.connect(
        url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.05, lambda: other.execute("ROLLBACK"))
    release.start()
    assert await database.transaction(lambda _: threading.get_ident(), brief=True) != here
    release.join()
    other.close()
    assert await database.transaction(lambda _: threading.get_ident(), brief=True) == here


async def test_the_log_is_moved_into_the_file_in_time(sqlite_databases: Databases) -> None:
    url = await sqlite_databases.url(RUNTIME_TABLES)
    database = sqlite_databases.reopen(url)
    await put(database, "first", brief=False)
    row = {"value": 1}
    for number in range(2_000):
        await database.transaction(
            lambda c, n=number: c.execute(INSERT, row | {"name": f"{n:04}" + "x" * 4_000}),
            brief=True,
        )
    path = url.removeprefix("sqlite:///")
    assert os.stat(path).st_size > 2 * 1024 * 1024
    assert os.stat(f"{path}-wal").st_size < 8 * 1024 * 1024
