"""Verifies a service's audit offline: its database, its checkpoints, its checkpoint file.

Writes nothing and needs no server; beside a running one it sees what was committed when it looked.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from minara_core.errors import InvalidRequest, NotFound
from minara_core.reasons import ErrorReason
from minara_runtime.audit_checkpoint import CheckpointKeys, CheckpointUnreadable, SignedCheckpoint
from minara_runtime.audit_checkpoint_file import CheckpointFile, checkpoint_path
from minara_runtime.audit_checkpoints import stored
from minara_runtime.audit_evidence import FILE, TABLE, CheckpointFault, compare, promised_by, walked
from minara_runtime.audit_tables import AUDIT_CHECKPOINTS, AUDIT_RECORDS, AUDIT_TABLES
from minara_runtime.audit_verifier import AuditFault, AuditFaultKind, verify
from minara_runtime.database import Database

T = TypeVar("T")

_CHECKPOINTS = sa.select(AUDIT_CHECKPOINTS).order_by(AUDIT_CHECKPOINTS.c.number)
_COUNTS = sa.select(AUDIT_RECORDS.c.user_id, sa.func.count()).group_by(AUDIT_RECORDS.c.user_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlace:
    """Where a service's audit lies."""

    service: str
    database_url: str
    data_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is to be said: `row` is a sequence of the user's chain, or without a user the
    number of a checkpoint."""

    user_id: str
    row: int
    kind: str
    is_broken: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What was looked at, and what was found. `uncovered` rows came after the last checkpoint."""

    service: str
    users: int = 0
    records: int = 0
    checkpoints: int = 0
    uncovered: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def is_broken(self) -> bool:
        return any(finding.is_broken for finding in self.findings)


async def verify_service(place: AuditPlace) -> AuditReport:
    """Check one service's whole audit.

    Raises NotFound when its public key is missing though there are checkpoints, InvalidRequest for
    a database without audit tables, SettingsError for a file that is no key, Unavailable when
    PostgreSQL does not answer.
    """
    file = CheckpointFile(checkpoint_path(place.data_dir, place.service))
    before = await asyncio.to_thread(_read_file, file)
    if _is_absent(place.database_url):
        return AuditReport(service=place.service, findings=(_no_database(place),) if before else ())
    seen = await snapshot(place.database_url, lambda c: _look(c, place, before))
    after = {line for line in await asyncio.to_thread(_read_file, file) if line is not None}
    return _report(place, seen, file_count_after=len(after))


async def snapshot(database_url: str, fn: Callable[[sa.Connection], T]) -> T:
    """Run `fn` on one consistent snapshot of a database that others may be using; never writes.

    Raises sqlite3.Error or DBAPIError for a file that is no database, Unavailable as Database.
    """
    url = sa.make_url(database_url)
    if url.drivername.startswith("sqlite"):
        return await asyncio.to_thread(_sqlite_snapshot, url.database or "", fn)
    database = Database.open(database_url, pool_size=1)
    try:
        return await database.read(fn)
    finally:
        await database.aclose()


def read_only(path: str) -> sqlite3.Connection:
    """A connection that cannot write. Raises sqlite3.Error when there is no such file."""
    return sqlite3.connect(
        f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None, timeout=5.0
    )


def _sqlite_snapshot(path: str, fn: Callable[[sa.Connection], T]) -> T:
    engine = sa.create_engine("sqlite://", creator=lambda: read_only(path), poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        return fn(connection)


def _is_absent(database_url: str) -> bool:
    url = sa.make_url(database_url)
    return url.drivername.startswith("sqlite") and not Path(url.database or "").exists()


def _read_file(file: CheckpointFile) -> list[SignedCheckpoint | None]:
    found: list[SignedCheckpoint | None] = []
    for line, _ in file.lines():
        try:
            found.append(SignedCheckpoint.from_line(line))
        except CheckpointUnreadable:
            found.append(None)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    faults: list[AuditFault]
    counts: Counter[str]
    table_count: int
    covered: Counter[str]
    bad: list[CheckpointFault]
    difference: Callable[[int], CheckpointFault | None]


def _look(
    connection: sa.Connection, place: AuditPlace, lines: list[SignedCheckpoint | None]
) -> _Seen:
    missing = set(AUDIT_TABLES.tables) - set(sa.inspect(connection).get_table_names())
    if missing:
        raise InvalidRequest(
            f"the database of {place.service} has no table {min(missing)}: this service never ran "
            "on it, or only an older version did",
            metadata={"service": place.service},
        )
    rows = connection.execute(_CHECKPOINTS).all()
    keys = CheckpointKeys.read(place.data_dir / "keys" / place.service, place.service)
    if (rows or lines) and not keys:
        raise NotFound(
            f"no public key of {place.service} in {place.data_dir / 'keys' / place.service}: "
            "without it no checkpoint can be checked",
            reason=ErrorReason.REQUEST_INVALID,
            metadata={"service": place.service},
        )
    table = walked(TABLE, place.service, keys, [stored(row) for row in rows])
    written = max((row.number for row in rows if row.is_in_file), default=0)
    file = walked(FILE, place.service, keys, lines)
    promised = promised_by(table, file)
    return _Seen(
        faults=verify(connection, promised),
        counts=Counter({str(user): int(count) for user, count in connection.execute(_COUNTS)}),
        table_count=len(rows),
        covered=Counter({user: max(heads) for user, heads in promised.items()}),
        bad=[fault for fault in (table.fault, file.fault) if fault is not None],
        difference=lambda count: compare(table, file, written=written, file_count_after=count),
    )


def _report(place: AuditPlace, seen: _Seen, *, file_count_after: int) -> AuditReport:
    bad = [*seen.bad]
    difference = seen.difference(file_count_after)
    if difference is not None:
        bad.append(difference)
    return AuditReport(
        service=place.service,
        users=len(seen.counts),
        records=seen.counts.total(),
        checkpoints=seen.table_count,
        uncovered=(seen.counts - seen.covered).total(),
        findings=(
            *(_of_row(fault) for fault in seen.faults),
            *(_of_checkpoint(fault) for fault in bad),
        ),
    )


def _of_row(fault: AuditFault) -> Finding:
    row, user = f"row {fault.sequence} of user {fault.user_id}", fault.user_id
    sentences = {
        AuditFaultKind.CHANGED: f"{row} was changed after it was written",
        AuditFaultKind.REMOVED: f"{row} was removed",
        AuditFaultKind.REORDERED: f"{row} stands in another place than it was written to",
        AuditFaultKind.FORKED: f"{row} goes on from an earlier row: somebody wrote a second chain",
        AuditFaultKind.TRUNCATED: f"{row} and what followed were cut off: a checkpoint knows them",
        AuditFaultKind.ERASED: f"{fault.count} payload(s) of user {user} were erased, the first "
        f"one of row {fault.sequence}; the rows themselves are whole",
    }
    return Finding(
        user_id=user,
        row=fault.sequence,
        kind=fault.kind.value,
        is_broken=fault.is_broken,
        sentence=sentences[fault.kind],
    )


def _of_checkpoint(fault: CheckpointFault) -> Finding:
    return Finding(
        user_id="",
        row=fault.number,
        kind=f"checkpoint_{fault.place}",
        is_broken=fault.is_broken,
        sentence=f"checkpoint {fault.number} in the {fault.place}: {fault.why}",
    )


def _no_database(place: AuditPlace) -> Finding:
    return Finding(
        user_id="",
        row=1,
        kind=f"checkpoint_{TABLE}",
        is_broken=True,
        sentence="there are checkpoints in the file, and the database they are about is gone",
    )
