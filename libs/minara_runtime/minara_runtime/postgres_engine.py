"""PostgreSQL over asyncpg; synchronous functions run through SQLAlchemy's `run_sync`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from minara_core.clock import pause
from minara_core.errors import Unavailable
from minara_core.reasons import ErrorReason
from minara_runtime.database_errors import is_lost_race, translated, unavailable

T = TypeVar("T")

_SESSION_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "application_name": "minara",
        "timezone": "UTC",
        "lock_timeout": "5s",
        "idle_in_transaction_session_timeout": "15s",
    }
)
_CONNECT_SECONDS = 5
_PROBE_SECONDS = 2
_POOL_WAIT_SECONDS = 10
_ATTEMPTS = 5
_FIRST_BACK_OFF_SECONDS = 0.005
_MIGRATION_LOCK = 0x6D696E617261  # "minara"


class PostgresEngine:
    """Transactions and snapshots on a pool of connections; made in the loop that uses it."""

    def __init__(self, url: sa.URL, *, pool_size: int) -> None:
        self._engine = _pooled(url, pool_size)
        # A connection of its own: a busy pool is no outage.
        self._probe = _pooled(url, 1)
        self._repeatable = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._snapshots = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._closing = False

    async def transaction(
        self, fn: Callable[[sa.Connection], T], *, repeatable: bool, brief: bool
    ) -> T:
        del brief  # here every transaction goes over a socket and waits for the disk
        engine = self._repeatable if repeatable else self._engine
        with translated():
            return await self._again_after_lost_race(engine, fn)

    async def read(self, fn: Callable[[sa.Connection], T], *, brief: bool) -> T:
        del brief
        with translated():
            return await self._again_after_lost_race(self._snapshots, fn)

    async def answers(self) -> bool:
        try:
            async with asyncio.timeout(_PROBE_SECONDS), self._connected(self._probe) as connection:
                await connection.exec_driver_sql("SELECT 1")
        except (TimeoutError, OSError, Unavailable, exc.SQLAlchemyError):
            return False
        return True

    @asynccontextmanager
    async def exclusive(self) -> AsyncGenerator[AsyncConnection]:
        with translated():
            async with self._connected(self._engine) as connection:
                await connection.exec_driver_sql("SET LOCAL lock_timeout = '60s'")
                await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
                yield connection
                await connection.commit()

    def in_use(self) -> int:
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    async def aclose(self) -> None:
        self._closing = True
        await self._engine.dispose()
        await self._probe.dispose()

    async def _again_after_lost_race(
        self, engine: AsyncEngine, fn: Callable[[sa.Connection], T]
    ) -> T:
        back_off = _FIRST_BACK_OFF_SECONDS
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._once(engine, fn)
            except exc.DBAPIError as error:
                if not _is_worth_another_try(error):
                    raise
            await pause(back_off)
            back_off *= 2
        return await self._once(engine, fn)

    async def _once(self, engine: AsyncEngine, fn: Callable[[sa.Connection], T]) -> T:
        async with self._connected(engine) as connection:
            result = await connection.run_sync(fn)
            try:
                await connection.commit()
            except exc.DBAPIError as error:
                if error.connection_invalidated:
                    # Whether it was committed is unknown, so nothing may run it again.
                    raise unavailable(error.orig) from error
                raise
            return result

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
        if self._closing:
            raise unavailable(self, reason=ErrorReason.SHUTTING_DOWN)
        connection = engine.connect()
        try:
            await connection.start()
        except (OSError, TimeoutError) as error:
            raise unavailable(error) from error
        try:
            yield connection
        finally:
            await connection.close()


def _pooled(url: sa.URL, size: int) -> AsyncEngine:
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        isolation_level="READ COMMITTED",
        pool_size=size,
        max_overflow=0,
        pool_timeout=_POOL_WAIT_SECONDS,
        connect_args={"server_settings": dict(_SESSION_SETTINGS), "timeout": _CONNECT_SECONDS},
    )


def _is_worth_another_try(error: exc.DBAPIError) -> bool:
    """A lost race, or a pooled connection that had died before the transaction could commit."""
    return is_lost_race(error) or error.connection_invalidated
