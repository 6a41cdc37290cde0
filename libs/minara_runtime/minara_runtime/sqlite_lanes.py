"""Threads that run transactions on SQLite connections of their own, in the order they came."""

import asyncio
import contextvars
import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from minara_runtime.database_errors import is_busy, is_outage
from minara_runtime.sqlite_statements import DirectConnection

T = TypeVar("T")


class Line:
    """One thread's connection: made when needed, dropped when it broke.

    Transactions begin and end on the driver's connection: SQLAlchemy's take as long as a statement.
    """

    def __init__(self, connect: Callable[[], DirectConnection], begin: str) -> None:
        self._connect = connect
        self._begin = begin
        self._connection: DirectConnection | None = None

    def run(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run `fn` in a transaction. Raises sqlite3.OperationalError when its lock is not free."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._transact(self._connection, fn)
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            if is_outage(error) and not is_busy(error):
                self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _transact(self, connection: DirectConnection, fn: Callable[[sa.Connection], T]) -> T:
        driver = connection.driver
        driver.execute(self._begin)
        try:
            result = fn(connection)
            driver.execute("COMMIT")
        except BaseException:
            if driver.in_transaction:
                driver.execute("ROLLBACK")
            raise
        return result


class _Job(Protocol):
    def run(self, line: Line) -> None: ...


class Lane:
    """One queue, served by threads that start with the first job."""

    def __init__(
        self, connect: Callable[[], DirectConnection], begin: str, *, threads: int
    ) -> None:
        self._connect = connect
        self._begin = begin
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._count = threads
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._connected = threading.Event()

    @property
    def has_connected(self) -> bool:
        return self._connected.is_set()

    @property
    def under_way(self) -> int:
        """Functions that run or wait."""
        return self._under_way

    @property
    def is_idle(self) -> bool:
        return self._under_way == 0

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._serve, name=f"sqlite-{index}", daemon=True)
                for index in range(self._count)
            ]
            for thread in self._threads:
                thread.start()
        call = _Call(fn, asyncio.get_running_loop())
        self._under_way += 1
        try:
            self._jobs.put(call)
            return await call.result()
        finally:
            self._under_way -= 1

    async def aclose(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        loop = asyncio.get_running_loop()
        for thread in self._threads:
            await loop.run_in_executor(None, thread.join)

    def _serve(self) -> None:
        line = Line(self._noting_connect, self._begin)
        while (job := self._jobs.get()) is not None:
            job.run(line)
            del job  # it holds the caller's closure until the next one comes
        line.close()

    def _noting_connect(self) -> DirectConnection:
        connection = self._connect()
        self._connected.set()
        return connection


class _Call:
    """One function on its way to a thread and its outcome on the way back."""

    def __init__(self, fn: Callable[[sa.Connection], T], loop: asyncio.AbstractEventLoop) -> None:
        self._fn: Callable[[sa.Connection], object] = fn
        self._context = contextvars.copy_context()  # what is written names the caller's trace
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

    def run(self, line: Line) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            result = self._context.run(line.run, self._fn)
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
