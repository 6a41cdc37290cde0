"""Copies what must not be lost from a data folder, consistently, also beside a running Minara."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from minara_core.clock import Clock
from minara_core.errors import AlreadyExists, InvalidRequest
from minara_runtime.audit_checkpoint import CheckpointUnreadable, SignedCheckpoint
from minara_runtime.audit_checkpoint_file import FOLDER, CheckpointFile, checkpoint_path
from minara_runtime.audit_report import read_only
from minara_runtime.columns import utc_text
from minara_runtime.keys import SERVICES, key_id, public_key_from
from minara_runtime.private_files import PRIVATE, sync_folder, write_whole

MANIFEST = "manifest.json"
MONEY_COUNTER = Path(FOLDER) / "money-counter.json"
"""Under `data_dir`: how far the tools service's money transitions had come."""
COUNTER_COPY = Path(FOLDER) / "money-counter.at-backup.json"
"""Its name in a copy. Books that start without the counter's own name count as restored: they halt
until a person adopts them, for what they believe to wait may have been executed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFile:
    """`path` is relative to the target. `database_id` is how a database that counts money names
    itself; else empty."""

    path: str
    size: int
    sha256: str
    database_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CopiedDatabase:
    """`last_checkpoint` is the number of the last one it knows, None without their table."""

    last_checkpoint: int | None
    database_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    create_time: str
    files: tuple[CopiedFile, ...]


def back_up(data_dir: Path, databases: Mapping[str, str], target: Path, *, clock: Clock) -> Backup:
    """Copy the databases of `data_dir` and those at the URLs `databases` (by service), the audit
    checkpoints, the money counter and the public keys that prove them, into the new folder
    `target`. Blocks.

    Laid out as a data folder, with a manifest. Raises InvalidRequest for a PostgreSQL URL,
    AlreadyExists when `target` holds anything, sqlite3.Error for a file that is no database.
    """
    _refuse_postgres(databases)
    _make_empty(target)
    counter = data_dir / MONEY_COUNTER
    # The counter first: a database may be ahead of it, never behind.
    if counter.exists():
        _copy(counter, target / COUNTER_COPY)
    copied = {
        name: _copy_database(source, target / f"{name}.db")
        for name, source in _sqlite_files(data_dir, databases).items()
    }
    for service in SERVICES:
        database = copied.get(service)
        most = None if database is None else database.last_checkpoint
        _copy_checkpoints(data_dir, service, target, most=most)
        _copy_public_keys(data_dir, service, target)
    made = Backup(create_time=utc_text(clock.now()), files=_described(target, copied))
    text = json.dumps(asdict(made), indent=2).encode() + b"\n"
    write_whole(target / MANIFEST, text)
    return made


def _refuse_postgres(databases: Mapping[str, str]) -> None:
    elsewhere = sorted(s for s, u in databases.items() if not u.startswith("sqlite"))
    if elsewhere:
        raise InvalidRequest(
            f"the database of {', '.join(elsewhere)} is PostgreSQL: copy it with pg_dump, and "
            f"beside it, before the dump, {MONEY_COUNTER} and after it the rest of the folders "
            f"{FOLDER} and keys of the data folder",
            metadata={"field": "database_url"},
        )


def _make_empty(target: Path) -> None:
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = next(target.iterdir(), None) is None
    except FileExistsError as error:
        raise _taken(target) from error
    if not is_empty:
        raise _taken(target)
    target.chmod(0o700)


def _taken(target: Path) -> AlreadyExists:
    return AlreadyExists(f"{target} holds something already; a backup overwrites nothing")


def _sqlite_files(data_dir: Path, databases: Mapping[str, str]) -> dict[str, Path]:
    files = {path.stem: path for path in sorted(data_dir.glob("*.db"))}
    for service, url in databases.items():
        path = Path(sa.make_url(url).database or "")
        if path.exists():
            files[service] = path
    return files


def _copy_database(source: Path, target: Path) -> _CopiedDatabase:
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
    with closing(read_only(str(source))) as reading, closing(sqlite3.connect(target)) as writing:
        reading.backup(writing)
        last = _value(writing, "SELECT max(number) FROM audit_checkpoints", absent=None, empty=0)
        named = _value(writing, "SELECT database_id FROM money_counters", absent="", empty="")
    _sync(target)
    return _CopiedDatabase(last_checkpoint=last, database_id=named)


def _copy_checkpoints(data_dir: Path, service: str, target: Path, *, most: int | None) -> None:
    """Up to number `most`, which the copied database knows: the service has gone on since."""
    source, copy = checkpoint_path(data_dir, service), checkpoint_path(target, service)
    if not source.exists():
        return
    lines = [
        line for line, _ in CheckpointFile(source).lines() if most is None or _number(line) <= most
    ]
    copy.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(copy, b"".join(lines))


def _number(line: bytes) -> int:
    """0 for a damaged line, which is copied as it is: hiding it is no backup's business."""
    try:
        return SignedCheckpoint.from_line(line).read().number
    except CheckpointUnreadable:
        return 0


def _value(connection: sqlite3.Connection, query: str, *, absent: Any, empty: Any) -> Any:
    """The one value of a query: `absent` where there is no such table, `empty` without a row."""
    try:
        row = connection.execute(query).fetchone()
    except sqlite3.OperationalError:
        return absent
    return empty if row is None or row[0] is None else row[0]


def _copy_public_keys(data_dir: Path, service: str, target: Path) -> None:
    """Each under its id, so that a new key of the restored installation does not replace it."""
    for source in sorted((data_dir / "keys" / service).glob("*.pub")):
        text = source.read_text("ascii")
        folder = target / "keys" / service
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / f"{key_id(service, public_key_from(text))}.pub", text.encode())
    if (target / "keys").exists():
        (target / "keys").chmod(0o700)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(target, source.read_bytes())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def _described(target: Path, databases: Mapping[str, _CopiedDatabase]) -> tuple[CopiedFile, ...]:
    ids = {f"{name}.db": database.database_id for name, database in databases.items()}
    return tuple(
        CopiedFile(
            path=path.relative_to(target).as_posix(),
            size=path.stat().st_size,
            sha256=_sha256(path),
            database_id=ids.get(path.relative_to(target).as_posix(), ""),
        )
        for path in sorted(target.rglob("*"))
        if path.is_file()
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
