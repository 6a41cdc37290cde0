"""A throwaway PostgreSQL that keeps what it commits, unlike that of the tests."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from bench.wire import percentile
from minara_runtime.database import Database
from support.postgres import Cluster, SharedCluster

_DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
_COMMITS = (
    "SELECT COALESCE(SUM(xact_commit), 0) FROM pg_stat_database WHERE datname LIKE 'cluster%'"
)

_COMMITS_MEASURED = 100


@asynccontextmanager
async def durable_postgres(folder: Path) -> AsyncGenerator[Cluster]:
    """Its own server, with fsync, synchronous_commit and full_page_writes on."""
    shared = SharedCluster(made(folder))
    cluster = shared.join()
    try:
        for name in _DURABLE:
            await cluster.command(f"ALTER SYSTEM SET {name} = on")
        await cluster.command("SELECT pg_reload_conf()")
        for name in _DURABLE:
            assert await asked(cluster, f"SHOW {name}") == "on", name
        yield cluster
    finally:
        shared.leave()


def made(folder: Path) -> Path:
    """The folder, which is there now."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def transactions(cluster: Cluster) -> int:
    """Transactions that all services' databases have committed so far, reads among them."""
    return int(str(await asked(cluster, _COMMITS)))


async def commit_milliseconds(cluster: Cluster) -> float:
    """What one durable commit of one small row takes here, by its median: mostly the disk."""
    database = Database.open(await cluster.create("commits"))
    metadata = sa.MetaData()
    table = sa.Table("commits", metadata, sa.Column("number", sa.Integer, primary_key=True))
    insert = sa.insert(table).values(number=sa.bindparam("at"))
    await database.transaction(metadata.create_all)
    spent: list[float] = []
    for number in range(_COMMITS_MEASURED):
        row = {"at": number}
        begin = time.perf_counter()
        await database.transaction(lambda c, row=row: c.execute(insert, row).rowcount)
        spent.append((time.perf_counter() - begin) * 1_000)
    await database.aclose()
    return percentile(spent, 50)


async def asked(cluster: Cluster, sql: str) -> object:
    """The one value that a query gives."""
    engine = create_async_engine(
        cluster.url("postgres").replace("postgresql:", "postgresql+asyncpg:"), poolclass=NullPool
    )
    async with engine.connect() as connection:
        return (await connection.execute(sa.text(sql))).scalar_one()
