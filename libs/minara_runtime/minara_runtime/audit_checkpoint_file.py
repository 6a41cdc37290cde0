"""The append-only file of a service's checkpoints, outside its database.

JSON lines, mode 0600. It follows the table: a line is written once the database holds its row, so
the file never knows a checkpoint that the database has not had. Several processes may append: a
lock on the file keeps them apart where they share a host, the lease in the database elsewhere, and
the same line twice says nothing new.
"""

import fcntl
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from minara_runtime.audit_checkpoint import SignedCheckpoint
from minara_runtime.private_files import PRIVATE, sync_folder

FOLDER = "audit"
_BLOCK = 65_536


def checkpoint_path(data_dir: Path, service: str) -> Path:
    """Where a service's checkpoints lie in a data folder."""
    return data_dir / FOLDER / f"{service}.checkpoints"


class CheckpointFile:
    """Every call blocks; none is for the event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def last(self) -> SignedCheckpoint | None:
        """The checkpoint that was written last, None for no file or an empty one.

        A line without its end was never wholly written and does not count. Raises
        CheckpointUnreadable.
        """
        if not self.path.exists():
            return None
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return _last(descriptor)[0]
        finally:
            os.close(descriptor)

    def append(self, checkpoints: Sequence[SignedCheckpoint]) -> None:
        """Write those that are newer than the last one, in order; on disk when it returns.

        Raises CheckpointUnreadable when the last line is none of ours, OSError when the disk does
        not take it.
        """
        with self._locked() as descriptor:
            last, end = _last(descriptor)
            number = 0 if last is None else last.read().number
            lines = [each.line() for each in checkpoints if each.read().number > number]
            if not lines:
                return
            os.ftruncate(descriptor, end)
            _write(descriptor, b"".join(lines))
            os.fsync(descriptor)

    def lines(self, offset: int = 0) -> Iterator[tuple[bytes, int]]:
        """Each whole line from `offset` on with the offset behind it; nothing without a file."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                yield line, offset

    @contextmanager
    def _locked(self) -> Generator[int]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if is_new:
                sync_folder(self.path.parent)
                sync_folder(self.path.parent.parent)
            yield descriptor
        finally:
            os.close(descriptor)


def _last(descriptor: int) -> tuple[SignedCheckpoint | None, int]:
    """The last whole line, and the offset behind it."""
    size = os.fstat(descriptor).st_size
    tail, start = b"", size
    while True:
        end = tail.rfind(b"\n")
        begin = tail.rfind(b"\n", 0, end) if end > 0 else -1
        if begin >= 0 or start == 0:
            break
        length = min(_BLOCK, start)
        start -= length
        tail = os.pread(descriptor, length, start) + tail
    if end < 0:
        return None, 0
    return SignedCheckpoint.from_line(tail[begin + 1 : end + 1]), start + end + 1


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
