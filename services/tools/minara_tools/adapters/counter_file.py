"""How far the money transitions of the ledger have come, in a file outside its database.

A database that is behind this file was restored or copied. Every call blocks and waits for the
disk: call it from a thread.
"""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minara_core.failpoints import Failpoint, no_failpoint
from minara_runtime.private_files import PRIVATE, sync_folder, write_draft


class CounterFileError(Exception):
    """The file proves nothing: halt, and let a person decide."""


class CounterFileDamaged(CounterFileError):
    """What the file holds is no counter."""


class CounterOfAnotherDatabase(CounterFileError):
    """The file counts for another database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRecord:
    """The highest counter that was written, for which database, and the host that wrote it."""

    database_id: str
    host: str
    counter: int


class CounterFile:
    """`path` and, beside it, a lock that processes on one volume share."""

    def __init__(self, path: Path, *, host: str, failpoint: Failpoint = no_failpoint) -> None:
        self._path = path
        self._lock = path.with_name(f"{path.name}.lock")
        self._host = host
        self._failpoint = failpoint

    @property
    def path(self) -> Path:
        return self._path

    @property
    def host(self) -> str:
        return self._host

    def read(self) -> CounterRecord | None:
        """What is on disk, None without a file. Raises CounterFileDamaged, OSError."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        return _parsed(content)

    def advance(self, database_id: str, counter: int) -> None:
        """Let the file say at least `counter`; on disk when it returns.

        A counter that is not higher leaves the file as it is. Raises CounterFileDamaged,
        CounterOfAnotherDatabase, OSError; the file is then as it was.
        """
        with self._locked():
            known = self.read()
            if known is not None and known.database_id != database_id:
                raise CounterOfAnotherDatabase(
                    f"{self._path} counts for the database {known.database_id}"
                )
            if known is None or counter > known.counter:
                self._write(database_id, counter)

    def adopt(self, database_id: str, counter: int) -> None:
        """Let the file say exactly this, whatever it held: what a person decided after a restore.

        On disk when it returns. Raises OSError.
        """
        with self._locked():
            self._write(database_id, counter)

    def _write(self, database_id: str, counter: int) -> None:
        if not database_id or counter < 0:
            raise ValueError("a counter is a number of a named database")
        record = CounterRecord(database_id=database_id, host=self._host, counter=counter)
        draft = write_draft(self._path, json.dumps(asdict(record)).encode() + b"\n")
        self._failpoint("counter-drafted")
        draft.replace(self._path)
        sync_folder(self._path.parent)

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def counter_path(data_dir: Path) -> Path:
    """Where the file lies, beside the audit checkpoints."""
    return data_dir / "audit" / "money-counter.json"


def _parsed(content: bytes) -> CounterRecord:
    try:
        fields: Any = json.loads(content)
        database_id, host, counter = fields["database_id"], fields["host"], fields["counter"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CounterFileDamaged("the money counter cannot be read") from error
    is_whole = (
        isinstance(database_id, str)
        and isinstance(host, str)
        and type(counter) is int
        and database_id
        and counter >= 0
    )
    if not is_whole:
        raise CounterFileDamaged("the money counter holds something else")
    return CounterRecord(database_id=database_id, host=host, counter=counter)
