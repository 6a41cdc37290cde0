"""The lease by which a process says that it lives and minds what it has begun."""

import math
from contextlib import suppress
from datetime import timedelta

import sqlalchemy as sa

from minara_core.clock import pause
from minara_core.errors import Unavailable
from minara_runtime.database import Database
from minara_runtime.lease_table import LEASES
from minara_runtime.leases import Leases
from minara_runtime.outages import through_outage
from minara_runtime.statements import DatabaseClock

LIFETIME = timedelta(seconds=15)
RENEWALS = 4
"""How often a lease is renewed within its lifetime."""

_PREFIX = "process:"
_EXPIRE = (
    sa.update(LEASES)
    .where(LEASES.c.name == sa.bindparam("lease"))
    .values(owner="", expire_time=DatabaseClock())
)
_EXPIRE_ALL = sa.update(LEASES).values(owner="", expire_time=DatabaseClock())


def lives(owner: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether the process that a row names still holds its lease."""
    held = sa.select(LEASES.c.name).where(
        LEASES.c.name == sa.literal(_PREFIX) + owner, LEASES.c.expire_time > DatabaseClock()
    )
    return held.exists()


class ProcessLease:
    def __init__(self, database: Database, *, owner: str, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._lifetime = lifetime
        self._name = _PREFIX + owner
        self._leases = Leases(database, owner=owner)
        self._has_begun = False

    async def begin(self) -> None:
        """Say that this process lives. Alone on an SQLite file, it also ends all older leases."""
        if self._database.dialect == "sqlite":
            await self._database.transaction(lambda c: c.execute(_EXPIRE_ALL))
        await self._leases.acquire(self._name, self._lifetime)
        self._has_begun = True

    async def end(self) -> None:
        """Say that this process ends: what it leaves is another's at once.

        Where the database does not hear it, the lease lapses by itself.
        """
        if self._has_begun:
            with suppress(Unavailable):
                await self._database.transaction(
                    lambda c: c.execute(_EXPIRE, {"lease": self._name})
                )

    async def stay_alive(self) -> None:
        """Say so again and again, and at once when the database is back; runs until cancelled."""
        while True:
            await pause((self._lifetime / RENEWALS).total_seconds())
            await through_outage(
                lambda: self._leases.acquire(self._name, self._lifetime), seconds=math.inf
            )
