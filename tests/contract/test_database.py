"""Transactions and snapshots: the same promises on SQLite and PostgreSQL."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from minara_core.errors import InvalidRequest, Unavailable
from minara_core.reasons import ErrorReason
from minara_runtime.database import Database
from minara_runtime.statements import insert_if_absent, lock_row
from support.databases import RUNTIME_TABLES, Databases, PostgresShelf
from support.eventually import eventually
from support.postgres import Cluster

TABLES = sa.MetaData()
COUNTERS = sa.Table(
    "counters",
    TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger),
)
ENTRIES = sa.Table(
    "entries",
    TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("counter", sa.Text),
)


def put(name: str, value: int = 0) -> Callable[[sa.Connection], None]:
    def fn(connection: sa.Connection) -> None:
        connection.execute(sa.insert(COUNTERS), {"name": name, "value": value})

    return fn


def value_of(name: str) -> Callable[[sa.Connection], int | None]:
    def fn(connection: sa.Connection) -> int | None:
        return connection.execute(
            sa.select(COUNTERS.c.value).where(COUNTERS.c.name == name)
        ).scalar()

    return fn


def add_one(connection: sa.Connection) -> None:
    row = lock_row(connection, sa.select(COUNTERS.c.value).where(COUNTERS.c.name == "n"))
    assert row is not None
    connection.execute(sa.update(COUNTERS).values(value=row[0] + 1))


def add_one_without_lock(connection: sa.Connection) -> None:
    value = connection.execute(sa.select(COUNTERS.c.value)).scalar_one()
    connection.execute(sa.update(COUNTERS).values(value=value + 1))


async def test_concurrent_increments_all_survive(database: Database) -> None:
    await database.transaction(put("n"))

    async def worker() -> None:
        for _ in range(20):
            await database.transaction(add_one)

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(worker())
    assert await database.read(value_of("n")) == 160


async def test_increments_from_two_owners_of_the_file_all_survive(databases: Databases) -> None:
    url = await databases.url(RUNTIME_TABLES)
    first, second = databases.reopen(url), databases.reopen(url)
    await first.transaction(put("n"))

    async def worker(database: Database) -> None:
        for _ in range(20):
            await database.transaction(add_one)

    async with asyncio.TaskGroup() as group:
        for database in (first, second, first, second):
            group.create_task(worker(database))
    assert await second.read(value_of("n")) == 80


async def test_repeatable_read_runs_again_after_a_serialization_failure(
    database: Database,
) -> None:
    await database.transaction(put("n"))
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(database.transaction(add_one_without_lock, repeatable_read=True))
    assert await database.read(value_of("n")) == 3


async def test_a_raising_function_rolls_everything_back(database: Database) -> None:
    def fail(connection: sa.Connection) -> None:
        put("a")(connection)
        raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        await database.transaction(fail)
    assert await database.read(value_of("a")) is None
    await database.transaction(put("a", 1))
    assert await database.read(value_of("a")) == 1


async def test_a_violated_key_is_told_as_it_is(database: Database) -> None:
    await database.transaction(put("a"))
    with pytest.raises(exc.IntegrityError):
        await database.transaction(put("a"))


async def test_foreign_keys_hold(database: Database) -> None:
    with pytest.raises(exc.IntegrityError):
        await database.transaction(
            lambda c: c.execute(sa.insert(ENTRIES), {"name": "x", "counter": "nowhere"})
        )


async def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(exc.DBAPIError):
        await database.read(put("a"))
    assert await database.read(value_of("a")) is None


async def test_a_read_sees_one_snapshot(databases: Databases) -> None:
    url = await databases.url(RUNTIME_TABLES)
    reader, writer = databases.reopen(url), databases.reopen(url)
    await writer.transaction(put("n", 1))
    seen: list[int | None] = []

    def read_twice(connection: sa.Connection) -> None:
        seen.append(value_of("n")(connection))
        in_another_thread(url, set_to_two)
        seen.append(value_of("n")(connection))

    await reader.read(read_twice)
    assert seen == [1, 1]
    assert await reader.read(value_of("n")) == 2


def in_another_thread(url: str, use: Callable[[Database], Awaitable[None]]) -> None:
    async def open_and_use() -> None:
        database = Database.open(url)
        await use(database)
        await database.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(open_and_use()))
    thread.start()
    thread.join()


async def set_to_two(database: Database) -> None:
    await database.transaction(lambda c: c.execute(sa.update(COUNTERS).values(value=2)))


async def test_insert_if_absent_says_whether_it_inserted(database: Database) -> None:
    def insert(connection: sa.Connection) -> bool:
        return insert_if_absent(connection, COUNTERS, {"name": "a", "value": 7})

    assert await database.transaction(insert) is True
    assert await database.transaction(insert) is False


async def test_a_cancelled_caller_leaves_a_whole_transaction(databases: Databases) -> None:
    """Cancelled at any point, both rows are there or none, and the next transaction works."""
    url = await databases.url(RUNTIME_TABLES)
    database = databases.reopen(url)

    def put_two(name: str) -> Callable[[sa.Connection], None]:
        def fn(connection: sa.Connection) -> None:
            put(f"{name}-1")(connection)
            put(f"{name}-2")(connection)

        return fn

    loop = asyncio.get_running_loop()
    for number in range(60):
        task = asyncio.create_task(database.transaction(put_two(str(number))))
        loop.call_later(number * 0.00005, task.cancel)
        await asyncio.wait([task])
        await database.transaction(put(f"after-{number}"))
    names = set(
        await database.read(lambda c: c.execute(sa.select(COUNTERS.c.name)).scalars().all())
    )
    for number in range(60):
        assert (f"{number}-1" in names) == (f"{number}-2" in names)
        assert f"after-{number}" in names


async def test_a_cancelled_caller_returns_only_when_its_transaction_is_over(
    sqlite_databases: Databases,
) -> None:
    database = await sqlite_databases.open(RUNTIME_TABLES)
    started, go_on = threading.Event(), threading.Event()

    def slow(connection: sa.Connection) -> None:
        put("slow")(connection)
        started.set()
        go_on.wait(5)

    running = asyncio.create_task(database.transaction(slow))
    queued = asyncio.create_task(database.transaction(put("queued")))
    await eventually(started.is_set)
    running.cancel()
    queued.cancel()
    await asyncio.wait([queued], timeout=5)
    assert queued.cancelled()
    running.cancel()
    assert not running.done()
    go_on.set()
    await asyncio.wait([running], timeout=5)
    assert running.cancelled()
    assert await database.read(value_of("slow")) == 0
    assert await database.read(value_of("queued")) is None


async def test_a_locked_file_is_unavailable_and_heals(sqlite_databases: Databases) -> None:
    url = await sqlite_databases.url(RUNTIME_TABLES)
    database = sqlite_databases.reopen(url)
    await database.transaction(lambda c: c.exec_driver_sql("PRAGMA busy_timeout=10"))
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable) as refused:
        await database.transaction(put("a"))
    assert refused.value.reason is ErrorReason.DATABASE_UNAVAILABLE
    other.execute("ROLLBACK")
    other.close()
    await database.transaction(put("a"))


@pytest.mark.postgres
async def test_a_lost_connection_heals_by_itself(
    postgres_shelf: PostgresShelf, postgres_cluster: Cluster
) -> None:
    made = Databases(postgres_shelf)
    url = await made.url(RUNTIME_TABLES)
    database, name = made.reopen(url), sa.make_url(url).database or ""
    await database.transaction(put("a", 5))
    await postgres_cluster.disconnect(name)
    assert await database.read(value_of("a")) == 5
    await postgres_cluster.disconnect(name)
    await database.transaction(put("b"))
    await made.aclose()


@pytest.mark.postgres
async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    database = Database.open(f"postgresql://postgres@/nowhere?host={tmp_path}")
    for use in (database.transaction, database.read):
        with pytest.raises(Unavailable) as refused:
            await use(value_of("a"))
        assert refused.value.reason is ErrorReason.DATABASE_UNAVAILABLE
    await database.aclose()


@pytest.mark.postgres
async def test_a_database_that_does_not_exist_is_unavailable(postgres_cluster: Cluster) -> None:
    database = Database.open(postgres_cluster.url("nowhere"))
    with pytest.raises(Unavailable):
        await database.read(value_of("a"))
    await database.aclose()


@pytest.mark.postgres
async def test_a_lock_that_does_not_come_is_unavailable(postgres_shelf: PostgresShelf) -> None:
    made = Databases(postgres_shelf)
    url = await made.url(RUNTIME_TABLES)
    database = made.reopen(url)
    await database.transaction(put("n"))
    refusals: list[Unavailable] = []

    def hold(connection: sa.Connection) -> None:
        add_one(connection)
        in_another_thread(url, try_to_lock)

    async def try_to_lock(other: Database) -> None:
        with pytest.raises(Unavailable) as refused:
            await other.transaction(impatient)
        refusals.append(refused.value)

    def impatient(connection: sa.Connection) -> None:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '20ms'")
        add_one(connection)

    await database.transaction(hold)
    assert [refusal.reason for refusal in refusals] == [ErrorReason.DATABASE_UNAVAILABLE]
    assert await database.read(value_of("n")) == 1
    await made.aclose()


async def test_a_deadlock_is_run_again(databases: Databases) -> None:
    database = await databases.open(RUNTIME_TABLES)
    await database.transaction(put("a"))
    await database.transaction(put("b"))

    def add_in_order(*names: str) -> Callable[[sa.Connection], None]:
        def fn(connection: sa.Connection) -> None:
            for name in names:
                at = COUNTERS.c.name == name
                connection.execute(sa.update(COUNTERS).where(at).values(value=COUNTERS.c.value + 1))

        return fn

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(database.transaction(add_in_order("a", "b")))
            group.create_task(database.transaction(add_in_order("b", "a")))
    assert await database.read(value_of("a")) == 6
    assert await database.read(value_of("b")) == 6


async def test_a_closed_database_refuses(databases: Databases) -> None:
    database = await databases.open(RUNTIME_TABLES)
    await database.transaction(put("a"))
    await database.aclose()
    for use in (database.transaction, database.read):
        with pytest.raises(Unavailable) as refused:
            await use(value_of("a"))
        assert refused.value.reason is ErrorReason.SHUTTING_DOWN


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "nonsense"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        Database.open(url)
