"""A service's audit as it lies on disk: database, key, checkpoint file; no server."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from minara_core.audit import AuditKind
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import RandomIds
from minara_runtime.audit import append
from minara_runtime.audit_checkpoint import SignedCheckpoint
from minara_runtime.audit_checkpoint_file import CheckpointFile, checkpoint_path
from minara_runtime.audit_checkpoints import EVERY_SECONDS, Checkpoints, stored
from minara_runtime.audit_report import AuditPlace, AuditReport, verify_service
from minara_runtime.audit_tables import AUDIT_CHECKPOINTS
from minara_runtime.database import Database
from minara_runtime.keys import load_or_create
from minara_runtime.lease_table import LEASES
from support.audit import a_record
from support.clock import FixedClock
from support.databases import RUNTIME_TABLES, Databases

SERVICE = "tools"


class ProcessEnded(BaseException):
    """What a failpoint raises where a test cannot kill its own process."""


def dies_at(wanted: str) -> Failpoint:
    def die(name: str) -> None:
        if name == wanted:
            raise ProcessEnded

    return die


@dataclass
class Books:
    """`database` is what the service writes with."""

    databases: Databases
    url: str
    database: Database
    data_dir: Path

    @property
    def file(self) -> CheckpointFile:
        return CheckpointFile(checkpoint_path(self.data_dir, SERVICE))

    @property
    def lines(self) -> list[bytes]:
        """The file's, none when there is no file."""
        return [line for line, _ in self.file.lines()]

    def checkpoints(
        self, *, failpoint: Failpoint = no_failpoint, every_seconds: float = EVERY_SECONDS
    ) -> Checkpoints:
        """What one more process of the service would have."""
        return Checkpoints(
            self.databases.reopen(self.url, durable=True),
            self.file,
            service=SERVICE,
            key=load_or_create(self.data_dir / "keys" / SERVICE, SERVICE),
            clock=FixedClock(),
            ids=RandomIds(),
            failpoint=failpoint,
            every_seconds=every_seconds,
        )

    async def write(
        self, count: int = 1, *, user: str = "ann", kind: AuditKind = AuditKind.TOOL_CALL
    ) -> None:
        records = [a_record(number, user=user, kind=kind) for number in range(1, count + 1)]
        await self.database.transaction(lambda c: append(c, records))

    async def write_and_cover(self, *users: str) -> None:
        """A record of each user, and a checkpoint."""
        for user in users or ("ann",):
            await self.write(user=user)
        await self.checkpoints().make()

    async def die_between_table_and_file(self) -> None:
        with suppress(ProcessEnded):
            await self.checkpoints(failpoint=dies_at("audit-checkpoint-in-table")).make()

    async def in_table(self) -> list[SignedCheckpoint]:
        statement = sa.select(AUDIT_CHECKPOINTS).order_by(AUDIT_CHECKPOINTS.c.number)
        return await self.database.read(lambda c: [stored(row) for row in c.execute(statement)])

    async def heads(self) -> list[dict[str, int]]:
        """What each checkpoint covers: users and the size of their chains."""
        found = [signed.read().heads for signed in await self.in_table()]
        return [{user: head.sequence for user, head in heads.items()} for heads in found]

    async def is_idle(self) -> bool:
        """Whether checkpoints have been made before and nobody is making any."""
        owners = await self.database.read(lambda c: c.execute(sa.select(LEASES.c.owner)).scalars())
        return list(owners) == [""]

    async def execute(self, statement: sa.Executable) -> None:
        await self.database.transaction(lambda c: c.execute(statement))

    async def verify(self) -> AuditReport:
        return await verify_service(
            AuditPlace(service=SERVICE, database_url=self.url, data_dir=self.data_dir)
        )

    async def broken(self) -> list[tuple[str, int]]:
        """Kind and row of what is broken."""
        report = await self.verify()
        return [(found.kind, found.row) for found in report.findings if found.is_broken]

    def put_lines(self, lines: Sequence[bytes]) -> None:
        self.file.path.write_bytes(b"".join(lines))


async def some_books(databases: Databases, data_dir: Path) -> Books:
    url = await databases.url(RUNTIME_TABLES)
    return Books(databases, url, databases.reopen(url), data_dir)
