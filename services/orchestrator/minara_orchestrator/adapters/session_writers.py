"""One fenced writer per session: first come, first served here, a lease towards other replicas."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import sqlalchemy as sa

from minara_core.clock import pause
from minara_core.ids import SessionId
from minara_runtime.database import Database
from minara_runtime.lease_table import LEASES
from minara_runtime.leases import Lease, Leases
from minara_runtime.statements import DatabaseClock

LIFETIME = timedelta(seconds=10)
RENEW_EVERY = timedelta(seconds=3)
RETRY_SECONDS = 0.05

PROCESS_LEASE = "process:"
"""Prefix of the lease by which a process says that it lives."""

_EXPIRE_ALL = sa.update(LEASES).values(owner="", expire_time=DatabaseClock())


class LeasedWriters:
    """Implements SessionWriters."""

    def __init__(self, database: Database, *, owner: str) -> None:
        self._database = database
        self._process_lease = PROCESS_LEASE + owner
        self._leases = Leases(database, owner=owner)
        self._queues: dict[SessionId, asyncio.Lock] = {}
        self._waiting: dict[SessionId, int] = {}

    @asynccontextmanager
    async def hold(self, session_id: SessionId) -> AsyncGenerator[int]:
        queue = self._queues.setdefault(session_id, asyncio.Lock())
        self._waiting[session_id] = self._waiting.get(session_id, 0) + 1
        try:
            async with queue:
                lease = await self._acquire(session_id)
                try:
                    async with self._leases.keep(lease, RENEW_EVERY):
                        yield lease.epoch
                finally:
                    await self._leases.release(lease)
        finally:
            self._waiting[session_id] -= 1
            if not self._waiting[session_id]:
                del self._waiting[session_id], self._queues[session_id]

    async def _acquire(self, session_id: SessionId) -> Lease:
        while (lease := await self._leases.acquire(_name(session_id), LIFETIME)) is None:
            await pause(RETRY_SECONDS)
        return lease

    async def say_alive(self) -> None:
        """Let others know for a lease's time that this process lives and minds its turns."""
        await self._leases.acquire(self._process_lease, LIFETIME)

    async def stay_alive(self) -> None:
        """Say so again and again; runs until cancelled."""
        while True:
            await pause(RENEW_EVERY.total_seconds())
            await self.say_alive()

    async def expire_all(self) -> None:
        """End all leases: only for a process that is alone on its database and has just begun."""
        await self._database.transaction(lambda c: c.execute(_EXPIRE_ALL))


def _name(session_id: SessionId) -> str:
    return f"session:{session_id}"
