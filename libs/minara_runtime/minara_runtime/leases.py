"""Fenced leases over the database: one holder per name, judged by the database's clock.

A lease alone does not stop a holder that sleeps past its end; the fence does. Writes that only the
holder may make call `Leases.check` inside their transaction, and whatever a holder sends elsewhere
carries `Lease.epoch`, which grows by one with each new holder, so that the receiver can refuse
lower ones.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from minara_core.clock import pause
from minara_core.errors import Conflict, MinaraError, Unavailable
from minara_core.reasons import ErrorReason
from minara_runtime.database import Database
from minara_runtime.lease_table import LEASES
from minara_runtime.statements import DatabaseClock, database_time, insert_if_absent, lock_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to act as `name` until `expire_time` on the database's clock.

    Each renewal gives it `lifetime` again.
    """

    name: str
    owner: str
    epoch: int
    lifetime: timedelta
    expire_time: datetime


_ROW = sa.select(
    LEASES.c.owner, LEASES.c.epoch, LEASES.c.expire_time, DatabaseClock().label("now")
).where(LEASES.c.name == sa.bindparam("lease"))
_OURS = sa.and_(
    LEASES.c.name == sa.bindparam("lease"),
    LEASES.c.owner == sa.bindparam("holder"),
    LEASES.c.epoch == sa.bindparam("number"),
    LEASES.c.expire_time > DatabaseClock(),
)
_TAKE = (
    sa.update(LEASES)
    .where(LEASES.c.name == sa.bindparam("lease"))
    .values(
        owner=sa.bindparam("holder"),
        epoch=sa.bindparam("number"),
        expire_time=sa.bindparam("end"),
    )
)
_EXTEND = sa.update(LEASES).where(_OURS).values(expire_time=sa.bindparam("end"))
_RELEASE = sa.update(LEASES).where(_OURS).values(owner="", expire_time=DatabaseClock())
# A share lock lets several fenced writes run side by side, while a taker waits for all of them.
_FENCE = sa.select(LEASES.c.epoch).where(_OURS).with_for_update(read=True)


class Leases:
    """Takes, renews and checks the leases of one database.

    `owner` names one holder and must be new with each start of a process: whoever presents the same
    owner is taken for the same holder.
    """

    def __init__(self, database: Database, *, owner: str) -> None:
        if not owner:
            raise ValueError("a lease needs an owner")
        self._database = database
        self._owner = owner

    async def acquire(self, name: str, lifetime: timedelta) -> Lease | None:
        """The lease, or None while another owner holds it.

        The epoch grows by one unless this owner holds it already, which only extends it.
        """
        return await self._database.transaction(lambda c: self.take(c, name, lifetime), brief=True)

    async def renew(self, lease: Lease) -> Lease:
        """The same lease with its whole lifetime left. Raises Conflict (`LEASE_LOST`) if over."""

        def extend(connection: sa.Connection) -> Lease:
            end = database_time(connection) + lease.lifetime
            if connection.execute(_EXTEND, {**_parameters(lease), "end": end}).rowcount != 1:
                raise _lost(lease.name)
            return replace(lease, expire_time=end)

        return await self._database.transaction(extend, brief=True)

    async def release(self, lease: Lease) -> None:
        """Give it up for the next one; nothing happens if it was lost before."""
        await self._database.transaction(
            lambda c: self.give_up(c, lease.name, lease.epoch), brief=True
        )

    def give_up(self, connection: sa.Connection, name: str, epoch: int) -> None:
        """The same within a transaction."""
        connection.execute(_RELEASE, {"lease": name, "holder": self._owner, "number": epoch})

    def check(self, connection: sa.Connection, lease: Lease) -> None:
        """Fence the transaction: nobody else can take the lease before it ends.

        Raises Conflict (`LEASE_LOST`) if the lease is over or someone else's.
        """
        if connection.execute(_FENCE, _parameters(lease)).first() is None:
            raise _lost(lease.name)

    @asynccontextmanager
    async def hold(
        self, name: str, lifetime: timedelta, renew_every: timedelta
    ) -> AsyncGenerator[Lease]:
        """Acquire, `keep`, release. Raises Conflict (`LEASE_LOST`) while another owner holds it."""
        lease = await self.acquire(name, lifetime)
        if lease is None:
            raise _lost(name)
        try:
            async with self.keep(lease, renew_every):
                yield lease
        finally:
            await self.release(lease)

    @asynccontextmanager
    async def keep(self, lease: Lease, renew_every: timedelta) -> AsyncGenerator[Lease]:
        """Renew a lease in the background while the body runs.

        When it is lost the body is cancelled and Conflict (`LEASE_LOST`) leaves in place of the
        cancellation; Unavailable does when the database did not answer for a whole lifetime.
        """
        body = asyncio.current_task()
        assert body is not None
        others = body.cancelling()
        is_lost = False

        def stop_body(renewal: asyncio.Task[MinaraError]) -> None:
            nonlocal is_lost
            if not renewal.cancelled():
                is_lost = True
                body.cancel()

        renewal = asyncio.create_task(self._renew_until_lost(lease, renew_every))
        renewal.add_done_callback(stop_body)
        try:
            yield lease
        except asyncio.CancelledError:
            if not is_lost or body.cancelling() > others + 1:
                raise
        finally:
            renewal.remove_done_callback(stop_body)
            renewal.cancel()
            if is_lost:
                body.uncancel()
        if is_lost:
            raise renewal.result()

    async def _renew_until_lost(self, lease: Lease, renew_every: timedelta) -> MinaraError:
        """Why the lease is over, once it is; only `keep` ends it otherwise, by cancelling."""
        loop = asyncio.get_running_loop()
        end = loop.time() + lease.lifetime.total_seconds()
        while loop.time() < end:
            await pause(renew_every.total_seconds())
            asked = loop.time()
            try:
                async with asyncio.timeout_at(end):
                    await self.renew(lease)
            except Unavailable:
                continue
            except TimeoutError:
                break
            except Conflict as lost:
                return lost
            end = asked + lease.lifetime.total_seconds()
        return Unavailable(
            "the database did not answer while a lease lasted",
            reason=ErrorReason.DATABASE_UNAVAILABLE,
            metadata={"name": lease.name},
        )

    def take(self, connection: sa.Connection, name: str, lifetime: timedelta) -> Lease | None:
        """`acquire` within a transaction."""
        row = lock_row(connection, _ROW, {"lease": name})
        # A clock that was read before the lock came is early: it calls an old lease live, and
        # makes a new one shorter.
        now = database_time(connection) if row is None else row.now
        taken = Lease(
            name=name, owner=self._owner, epoch=1, lifetime=lifetime, expire_time=now + lifetime
        )
        if row is None:
            first = {
                "name": name,
                "owner": taken.owner,
                "epoch": taken.epoch,
                "expire_time": taken.expire_time,
            }
            # Another owner may have been first, a moment ago.
            return taken if insert_if_absent(connection, LEASES, first) else None
        is_live = row.expire_time > now
        if is_live and row.owner != self._owner:
            return None
        taken = replace(taken, epoch=row.epoch if is_live else row.epoch + 1)
        connection.execute(_TAKE, {**_parameters(taken), "end": taken.expire_time})
        return taken


def _parameters(lease: Lease) -> dict[str, object]:
    return {"lease": lease.name, "holder": lease.owner, "number": lease.epoch}


def _lost(name: str) -> Conflict:
    return Conflict(
        "the lease went to another owner", reason=ErrorReason.LEASE_LOST, metadata={"name": name}
    )
