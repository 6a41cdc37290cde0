"""One fenced writer per session: first come, first served here, a lease towards other replicas."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from minara_core.clock import pause
from minara_core.ids import SessionId
from minara_runtime.database import Database
from minara_runtime.leases import Lease, Leases

LIFETIME = timedelta(seconds=10)
RENEW_EVERY = timedelta(seconds=3)
RETRY_SECONDS = 0.05


class LeasedWriters:
    """Implements SessionWriters."""

    def __init__(self, database: Database, *, owner: str) -> None:
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


def _name(session_id: SessionId) -> str:
    return f"session:{session_id}"
