"""One fenced writer per session: first come, first served here, a lease towards other replicas."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import sqlalchemy as sa

from minara_core.clock import pause
from minara_core.ids import SessionId
from minara_orchestrator.app.turn_ports import Held
from minara_runtime.database import Database
from minara_runtime.leases import Lease, Leases
from minara_runtime.outages import through_outage

LIFETIME = timedelta(seconds=10)
RENEW_EVERY = timedelta(seconds=3)
RETRY_SECONDS = 0.05
OUTAGE_SECONDS = 15.0
"""How long a turn that may begin bears that the database is away."""


class LeasedWriters:
    """Implements SessionWriters. A lease may also be taken, and given up, within a transaction that
    does something else: a turn alone in its session costs none of its own."""

    def __init__(self, database: Database, *, owner: str) -> None:
        self._leases = Leases(database, owner=owner)
        self._queues: dict[SessionId, asyncio.Lock] = {}
        self._waiting: dict[SessionId, int] = {}
        self._taken: dict[tuple[SessionId, int], Lease] = {}

    def take(self, connection: sa.Connection, session_id: SessionId) -> int:
        """The epoch of the session's lease, for `hold`; 0 when another process has it."""
        lease = self._leases.take(connection, _name(session_id), LIFETIME)
        if lease is None:
            return 0
        self._taken[session_id, lease.epoch] = lease
        return lease.epoch

    def give_up(self, connection: sa.Connection, session_id: SessionId, epoch: int) -> None:
        """Give up the session's lease of this epoch."""
        self._leases.give_up(connection, _name(session_id), epoch)
        self._taken.pop((session_id, epoch), None)

    @asynccontextmanager
    async def hold(self, session_id: SessionId, *, taken: int = 0) -> AsyncGenerator[Held]:
        queue = self._queues.setdefault(session_id, asyncio.Lock())
        self._waiting[session_id] = self._waiting.get(session_id, 0) + 1
        try:
            async with queue:
                lease = self._taken.pop((session_id, taken), None)
                lease = lease or await self._acquire(session_id)
                held = Held(epoch=lease.epoch)
                try:
                    async with self._leases.keep(lease, RENEW_EVERY):
                        yield held
                finally:
                    if not held.was_given_up:
                        await self._leases.release(lease)
        finally:
            self._waiting[session_id] -= 1
            if not self._waiting[session_id]:
                del self._waiting[session_id], self._queues[session_id]

    async def _acquire(self, session_id: SessionId) -> Lease:
        while (lease := await self._tried(session_id)) is None:
            await pause(RETRY_SECONDS)
        return lease

    async def _tried(self, session_id: SessionId) -> Lease | None:
        return await through_outage(
            lambda: self._leases.acquire(_name(session_id), LIFETIME), seconds=OUTAGE_SECONDS
        )


def _name(session_id: SessionId) -> str:
    return f"session:{session_id}"
