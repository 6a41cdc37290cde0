"""SQLite: one writer thread and a few reader threads, each with a connection of its own.

A plain queue and one call back into the loop cost about half of what a thread pool does, and
`BEGIN IMMEDIATE` takes the write lock before the first read, so that no update is lost.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from minara_core.errors import InternalError, InvalidRequest
from minara_core.reasons import ErrorReason
from minara_runtime.database_errors import is_outage, translated, unavailable

T = TypeVar("T")

_BUSY_MILLISECONDS = 5_000
_MIGRATION_BUSY_MILLISECONDS = 60_000
_WAL_ATTEMPTS = 1_000
_WAL_PAUSE_SECONDS = 0.005


class SqliteEngine:
    """Transactions and snapshots on one file in WAL mode."""

    def __init__(self, url: sa.URL, *, durable: bool, readers: int) -> None:
        if not url.database or url.database == ":memory:":
            raise InvalidRequest("an SQLite database needs a file: sqlite:///path")
        self._url = url.set(drivername="sqlite+pysqlite")
        self._synchronous = "FULL" if durable else "NORMAL"
        self._writer = _Lane(lambda: self._connected(read_only=False), threads=1)
        self._readers = _Lane(lambda: self._connected(read_only=True), threads=readers)
        self._closing = False

    async def transaction(self, fn: Callable[[sa.Connection], T], *, repeatable: bool) -> T:
        del repeatable  # there is one writer: every transaction is serial
        self._refuse_when_closing()
        with translated():
            return await self._writer.run(fn)

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        self._refuse_when_closing()
        # Only a connection that may write can make the file and turn WAL on.
        if not self._writer.connected.is_set():
            await self.transaction(_nothing, repeatable=False)
        with translated():
            return await self._readers.run(fn)

    @asynccontextmanager
    async def exclusive(self) -> AsyncGenerator[AsyncConnection]:
        self._refuse_when_closing()
        await asyncio.to_thread(_turn_wal_on, self._url)
        engine = create_async_engine(
            self._url.set(drivername="sqlite+aiosqlite"), poolclass=NullPool
        )
        pragmas = (
            f"busy_timeout={_MIGRATION_BUSY_MILLISECONDS}",
            "synchronous=FULL",
            "foreign_keys=OFF",  # SQLite alters a table by rebuilding it; checked before the commit
        )
        _prepare(engine.sync_engine, pragmas, "BEGIN IMMEDIATE")
        try:
            with translated():
                async with engine.begin() as connection:
                    yield connection
                    broken = (await connection.exec_driver_sql("PRAGMA foreign_key_check")).all()
                    if broken:
                        raise InternalError(f"a migration breaks foreign keys: {broken[:3]}")
        finally:
            await engine.dispose()

    async def aclose(self) -> None:
        if self._closing:
            return
        self._closing = True
        await self._readers.aclose()
        await self._writer.aclose()

    def _refuse_when_closing(self) -> None:
        if self._closing:
            raise unavailable(self, reason=ErrorReason.SHUTTING_DOWN)

    def _connected(self, *, read_only: bool) -> sa.Connection:
        """A new connection of the calling thread's own."""
        pragmas = (f"busy_timeout={_BUSY_MILLISECONDS}",)
        if read_only:
            pragmas += ("query_only=ON",)
        else:
            _turn_wal_on(self._url)
            pragmas += (f"synchronous={self._synchronous}", "foreign_keys=ON")
        engine = sa.create_engine(self._url, poolclass=NullPool)
        _prepare(engine, pragmas, "BEGIN" if read_only else "BEGIN IMMEDIATE")
        return engine.connect()


class _Job(Protocol):
    def run(self, line: "_Line") -> None: ...


class _Lane:
    """One queue, served by threads that start with the first job."""

    def __init__(self, connect: Callable[[], sa.Connection], *, threads: int) -> None:
        self._connect = connect
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._count = threads
        self._threads: list[threading.Thread] = []
        self.connected = threading.Event()

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._serve, name=f"sqlite-{index}", daemon=True)
                for index in range(self._count)
            ]
            for thread in self._threads:
                thread.start()
        call = _Call(fn, asyncio.get_running_loop())
        self._jobs.put(call)
        return await call.result()

    async def aclose(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        loop = asyncio.get_running_loop()
        for thread in self._threads:
            await loop.run_in_executor(None, thread.join)

    def _serve(self) -> None:
        line = _Line(self._connect, self.connected)
        while (job := self._jobs.get()) is not None:
            job.run(line)
            del job  # it holds the caller's closure until the next one comes
        line.close()


class _Line:
    """A thread's connection: made when needed, dropped when it broke."""

    def __init__(self, connect: Callable[[], sa.Connection], connected: threading.Event) -> None:
        self._connect = connect
        self._connected = connected
        self._connection: sa.Connection | None = None

    def run(self, fn: Callable[[sa.Connection], T]) -> T:
        try:
            connection = self._connection
            if connection is None:
                connection = self._connection = self._connect()
                self._connected.set()
            with connection.begin():
                return fn(connection)
        except exc.SQLAlchemyError as error:
            if is_outage(error):
                self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Call:
    """One function on its way to a thread and its outcome on the way back."""

    def __init__(self, fn: Callable[[sa.Connection], T], loop: asyncio.AbstractEventLoop) -> None:
        self._fn: Callable[[sa.Connection], object] = fn
        self._loop = loop
        self._outcome: asyncio.Future[Any] = loop.create_future()
        self._settled: asyncio.Future[None] = loop.create_future()
        # Whoever takes it decides: the thread to run the function, a cancelled caller to drop it.
        self._claim = threading.Lock()

    async def result(self) -> Any:
        try:
            return await self._outcome
        except asyncio.CancelledError:
            if not self._claim.acquire(blocking=False):
                await self._until_settled()
            raise

    async def _until_settled(self) -> None:
        """Hold the cancellation back until the thread is out of the transaction."""
        while not self._settled.done():
            try:
                await asyncio.wait([self._settled])
            except asyncio.CancelledError:
                continue

    def run(self, line: _Line) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            result = line.run(self._fn)
        except BaseException as error:
            self._hand_back(None, error)
        else:
            self._hand_back(result, None)

    def _hand_back(self, result: object, error: BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _settle(self, result: object, error: BaseException | None) -> None:
        self._settled.set_result(None)
        if self._outcome.done():
            return
        if error is None:
            self._outcome.set_result(result)
        else:
            self._outcome.set_exception(error)


class _Cursor(Protocol):
    def execute(self, operation: str) -> object: ...

    def close(self) -> None: ...


def _prepare(engine: sa.Engine, pragmas: tuple[str, ...], begin: str) -> None:
    """Set each new connection up, and begin transactions ourselves: the driver begins too late."""

    def set_up(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        del record
        connection.isolation_level = None
        cursor = cast(_Cursor, connection.cursor())
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def start(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", set_up)
    event.listen(engine, "begin", start)


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
