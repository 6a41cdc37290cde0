"""Makes checkpoints of a service's audit chains in the background, into a table and a file.

The table comes first and the file follows. The table's key gives each number away once, whoever
asks; a process that ends in between leaves the file one line short, and the next one writes that
line from the table before anything else. So the file is never ahead, and a database that is behind
its file has been cut or restored. Once a line is on disk its row says so, which tells a file that
was cut from one that was not written yet.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import sqlalchemy as sa

from minara_core.clock import Clock, pause
from minara_core.errors import Conflict
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import IdSource
from minara_core.reasons import ErrorReason
from minara_runtime.audit import RowsWritten
from minara_runtime.audit_checkpoint import ChainHead, Checkpoint, SignedCheckpoint, first_or_next
from minara_runtime.audit_checkpoint_file import CheckpointFile
from minara_runtime.audit_tables import AUDIT_CHECKPOINTS, AUDIT_COVERED, AUDIT_HEADS
from minara_runtime.database import Database
from minara_runtime.keys import KeyPair
from minara_runtime.leases import Lease, Leases
from minara_runtime.logging import get_logger

EVERY_ROWS = 100
EVERY_SECONDS = 60.0
USERS_PER_CHECKPOINT = 1_000

_LEASE = "audit-checkpoints"
_LIFETIME = timedelta(seconds=15)
_LEASE_RETRY_SECONDS = 0.25
_LAST_SECONDS = 2.0
_PAGE = 200

_CHANGED = (
    sa.select(AUDIT_HEADS)
    .outerjoin(AUDIT_COVERED, AUDIT_COVERED.c.user_id == AUDIT_HEADS.c.user_id)
    .where(
        sa.or_(
            AUDIT_COVERED.c.record_hash.is_(None),
            AUDIT_COVERED.c.record_hash != AUDIT_HEADS.c.record_hash,
        )
    )
    .order_by(AUDIT_HEADS.c.user_id)
    .limit(USERS_PER_CHECKPOINT)
)
_LAST = sa.select(AUDIT_CHECKPOINTS).order_by(AUDIT_CHECKPOINTS.c.number.desc()).limit(1)
_FROM = (
    sa.select(AUDIT_CHECKPOINTS)
    .where(AUDIT_CHECKPOINTS.c.number >= sa.bindparam("first"))
    .order_by(AUDIT_CHECKPOINTS.c.number)
    .limit(_PAGE)
)
_INSERT = sa.insert(AUDIT_CHECKPOINTS)
_WRITTEN = (
    sa.update(AUDIT_CHECKPOINTS)
    .where(
        AUDIT_CHECKPOINTS.c.number <= sa.bindparam("last"),
        AUDIT_CHECKPOINTS.c.is_in_file == sa.false(),
    )
    .values(is_in_file=True)
)
_UNCOVER = sa.delete(AUDIT_COVERED).where(AUDIT_COVERED.c.user_id == sa.bindparam("of_user"))
_COVER = sa.insert(AUDIT_COVERED)


def _nobody() -> None:
    """Nobody wants to know."""


class Checkpoints:
    """Give it a database of its own, opened with `durable`: what the file says is on disk has to be
    there, and its waiting shall hold up nobody. `on_written` is called after each new line."""

    def __init__(
        self,
        database: Database,
        file: CheckpointFile,
        *,
        service: str,
        key: KeyPair,
        clock: Clock,
        ids: IdSource,
        on_written: Callable[[], None] = _nobody,
        failpoint: Failpoint = no_failpoint,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        self._database = database
        self._file = file
        self._service = service
        self._key = key
        self._clock = clock
        self._on_written = on_written
        self._failpoint = failpoint
        self._every_seconds = every_seconds
        self._leases = Leases(database, owner=ids.new())
        self._rows = 0
        self._due = asyncio.Event()
        self._log = get_logger("audit")

    def notice(self, fact: object) -> None:
        """A listener for the service's own database: money, or a hundred rows, wakes the job."""
        if not isinstance(fact, RowsWritten):
            return
        self._rows += fact.count
        if fact.is_money or self._rows >= EVERY_ROWS:
            self._due.set()

    async def run_forever(self) -> None:
        """Make checkpoints when they are due, every minute, and once more when cancelled.

        Raises Conflict when file and table cannot belong together, CheckpointUnreadable for a
        damaged file.
        """
        try:
            while True:
                await self.make()
                await self._until_due()
        except asyncio.CancelledError as end:
            # A service that ends in good order leaves nothing uncovered; but it ends, whatever
            # becomes of that.
            try:
                async with asyncio.timeout(_LAST_SECONDS):
                    await self.make()
            finally:
                raise end

    async def make(self) -> None:
        """Cover all that is committed; does nothing when nothing has changed. Raises as above."""
        self._due.clear()
        self._rows = 0
        async with self._alone() as lease:
            await self._write_missing_lines()
            while await self._database.transaction(lambda c: self._make_one(c, lease)):
                self._failpoint("audit-checkpoint-in-table")
                await self._write_missing_lines()

    async def _until_due(self) -> None:
        """Or a minute: what other replicas wrote, and what was too little to be due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._every_seconds):
                await self._due.wait()

    def _make_one(self, connection: sa.Connection, lease: Lease) -> bool:
        changed = connection.execute(_CHANGED).all()
        if not changed:
            return False
        self._leases.check(connection, lease)
        last = connection.execute(_LAST).first()
        number, previous_hash = first_or_next(None if last is None else stored(last))
        checkpoint = Checkpoint(
            service=self._service,
            number=number,
            time=self._clock.now(),
            previous_hash=previous_hash,
            heads={
                row.user_id: ChainHead(sequence=row.sequence, record_hash=row.record_hash)
                for row in changed
            },
        )
        signed = checkpoint.sign(self._key)
        connection.execute(
            _INSERT,
            {
                "number": number,
                "document": signed.document,
                "key_id": signed.key_id,
                "signature": signed.signature,
                "is_in_file": False,
            },
        )
        connection.execute(_UNCOVER, [{"of_user": row.user_id} for row in changed])
        connection.execute(
            _COVER, [{"user_id": row.user_id, "record_hash": row.record_hash} for row in changed]
        )
        return True

    async def _write_missing_lines(self) -> None:
        last = await asyncio.to_thread(self._file.last)
        while missing := await self._behind(last):
            await asyncio.to_thread(self._file.append, missing)
            self._on_written()
            last = missing[-1]
            await self._mark_written(last.read().number)

    async def _mark_written(self, last: int) -> None:
        await self._database.transaction(lambda c: c.execute(_WRITTEN, {"last": last}))

    async def _behind(self, last: SignedCheckpoint | None) -> list[SignedCheckpoint]:
        """What the table holds behind the file's last line, a page of it."""
        first = 0 if last is None else last.read().number
        rows = await self._database.read(lambda c: c.execute(_FROM, {"first": first}).all())
        found = [stored(row) for row in rows]
        lost = [row.number for row in rows if row.is_in_file and row.number > first]
        if lost:
            self._log.warning("checkpoint_lines_lost", service=self._service, first=lost[0])
        if last is None:
            return found
        if not found or found[0].document != last.document:
            raise Conflict(
                f"{self._file.path} goes on beyond the database's checkpoint {first}: one of the "
                "two was cut, restored or exchanged; `minara audit verify` says which",
                reason=ErrorReason.ALREADY_EXISTS,
                metadata={"service": self._service, "number": str(first)},
            )
        return found[1:]

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[Lease]:
        """Hold the lease under which one replica at a time makes checkpoints."""
        while (lease := await self._leases.acquire(_LEASE, _LIFETIME)) is None:
            await pause(_LEASE_RETRY_SECONDS)
        try:
            yield lease
        finally:
            await self._leases.release(lease)


def stored(row: sa.Row[*tuple[object, ...]]) -> SignedCheckpoint:
    """A row of the table as the value that was signed."""
    return SignedCheckpoint(document=row.document, key_id=row.key_id, signature=row.signature)
