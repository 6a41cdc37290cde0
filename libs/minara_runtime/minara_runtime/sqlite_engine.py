"""SQLite: one writer thread and a few reader threads, each with a connection of its own.

A plain queue and one call back into the loop cost about half of what a thread pool does, and
`BEGIN IMMEDIATE` takes the write lock before the first read, so that no update is lost. What is
brief runs on the loop's own thread: the way to another one and back costs more than the work.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from typing import Protocol, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from minara_core.errors import InternalError, InvalidRequest
from minara_core.reasons import ErrorReason
from minara_runtime.database_errors import is_busy, translated, unavailable
from minara_runtime.sqlite_lanes import Lane, Line
from minara_runtime.sqlite_statements import DirectConnection

T = TypeVar("T")

_WRITE = "BEGIN IMMEDIATE"
_READ = "BEGIN"
_BUSY_MILLISECONDS = 5_000
_MIGRATION_BUSY_MILLISECONDS = 60_000
_BRIEF_PER_TIDYING = 64
_WAL_ATTEMPTS = 1_000
_WAL_PAUSE_SECONDS = 0.005


class SqliteEngine:
    """Transactions and snapshots on one file in WAL mode."""

    def __init__(self, url: sa.URL, *, durable: bool, readers: int) -> None:
        if not url.database or url.database == ":memory:":
            raise InvalidRequest("an SQLite database needs a file: sqlite:///path")
        self._url = url.set(drivername="sqlite+pysqlite")
        synchronous = "FULL" if durable else "NORMAL"
        self._writer = Lane(lambda: self._first_writing(synchronous), _WRITE, threads=1)
        self._readers = Lane(lambda: self._reading(_BUSY_MILLISECONDS), _READ, threads=readers)
        # On the loop's own thread nothing may wait, neither for a lock nor for the disk.
        self._brief_writer = Line(
            lambda: self._writing(0, "NORMAL", "wal_autocheckpoint=0"), _WRITE
        )
        self._brief_reader = Line(lambda: self._reading(0), _READ)
        self._brief_count = 0
        self._closing = False

    async def transaction(
        self, fn: Callable[[sa.Connection], T], *, repeatable: bool, brief: bool
    ) -> T:
        del repeatable  # there is one writer: every transaction is serial
        self._refuse_when_closing()
        with translated():
            if brief and self._may_write_here():
                try:
                    return self._brief_writer.run(fn)
                except sqlite3.OperationalError as error:
                    if not is_busy(error):
                        raise
            return await self._writer.run(fn)

    async def read(self, fn: Callable[[sa.Connection], T], *, brief: bool) -> T:
        self._refuse_when_closing()
        # Only a connection that may write can make the file and turn WAL on.
        if not self._writer.has_connected:
            await self.transaction(_nothing, repeatable=False, brief=False)
        with translated():
            if brief:
                try:
                    return self._brief_reader.run(fn)
                except sqlite3.OperationalError as error:
                    if not is_busy(error):
                        raise
            return await self._readers.run(fn)

    def _may_write_here(self) -> bool:
        """Whether no other thread writes. Now and then the writer has its turn: only its commits
        move what the log holds into the file, which waits for the disk."""
        self._brief_count += 1
        is_tidying = self._brief_count % _BRIEF_PER_TIDYING == 0
        return self._writer.has_connected and self._writer.is_idle and not is_tidying

    async def answers(self) -> bool:
        return not self._closing  # a file is always there, or the next statement says why not

    @asynccontextmanager
    async def exclusive(self) -> AsyncGenerator[AsyncConnection]:
        self._refuse_when_closing()
        with translated():
            await asyncio.to_thread(_turn_wal_on, self._url)
        engine = create_async_engine(
            self._url.set(drivername="sqlite+aiosqlite"), poolclass=NullPool
        )
        pragmas = (
            f"busy_timeout={_MIGRATION_BUSY_MILLISECONDS}",
            "synchronous=FULL",
            "foreign_keys=OFF",  # SQLite alters a table by rebuilding it; checked before the commit
        )
        _prepare(engine.sync_engine, pragmas)
        event.listen(engine.sync_engine, "begin", _begin_immediate)
        try:
            with translated():
                async with engine.begin() as connection:
                    yield connection
                    broken = (await connection.exec_driver_sql("PRAGMA foreign_key_check")).all()
                    if broken:
                        raise InternalError(f"a migration breaks foreign keys: {broken[:3]}")
        finally:
            await engine.dispose()

    def in_use(self) -> int:
        return self._writer.under_way + self._readers.under_way

    async def aclose(self) -> None:
        if self._closing:
            return
        self._closing = True
        await self._readers.aclose()
        self._brief_reader.close()
        self._brief_writer.close()
        await self._writer.aclose()

    def _refuse_when_closing(self) -> None:
        if self._closing:
            raise unavailable(self, reason=ErrorReason.SHUTTING_DOWN)

    def _first_writing(self, synchronous: str) -> DirectConnection:
        _turn_wal_on(self._url)
        return self._writing(_BUSY_MILLISECONDS, synchronous)

    def _writing(self, busy_milliseconds: int, synchronous: str, *more: str) -> DirectConnection:
        pragmas = (f"synchronous={synchronous}", "foreign_keys=ON", *more)
        return self._connected(busy_milliseconds, *pragmas)

    def _reading(self, busy_milliseconds: int) -> DirectConnection:
        return self._connected(busy_milliseconds, "query_only=ON")

    def _connected(self, busy_milliseconds: int, *pragmas: str) -> DirectConnection:
        """A new connection of the calling thread's own."""
        engine = sa.create_engine(self._url, poolclass=NullPool)
        _prepare(engine, (f"busy_timeout={busy_milliseconds}", *pragmas))
        return DirectConnection(engine)


class _Cursor(Protocol):
    def execute(self, operation: str) -> object: ...

    def close(self) -> None: ...


def _prepare(engine: sa.Engine, pragmas: tuple[str, ...]) -> None:
    """Set each new connection up; its transactions we begin ourselves: the driver is too late."""

    def set_up(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        del record
        connection.isolation_level = None
        cursor = cast(_Cursor, connection.cursor())
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    event.listen(engine, "connect", set_up)


def _begin_immediate(connection: sa.Connection) -> None:
    connection.exec_driver_sql(_WRITE)


def _turn_wal_on(url: sa.URL) -> None:
    """Put the file into WAL mode for good; two that do it at once get a lock error, not a wait."""
    with closing(sqlite3.connect(url.database or "", isolation_level=None)) as connection:
        for _ in range(_WAL_ATTEMPTS):
            try:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY":
                    raise unavailable(error) from error
                time.sleep(_WAL_PAUSE_SECONDS)
            else:
                if mode != "wal":
                    raise InternalError(f"{url.database} lies on a file system without WAL")
                return
    raise unavailable(sqlite3.OperationalError("busy"))


def _nothing(connection: sa.Connection) -> None:
    del connection
