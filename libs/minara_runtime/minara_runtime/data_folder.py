"""The folder on disk that belongs to one installation: databases, keys, locks."""

import fcntl
import os
import stat
from pathlib import Path

from minara_core.errors import Conflict, InvalidRequest
from minara_core.reasons import ErrorReason

_PRIVATE = 0o700
_FOREIGN_WRITE = stat.S_IWGRP | stat.S_IWOTH


class DataFolder:
    """`path`, made with mode 0700 if absent.

    Raises InvalidRequest if it is no folder, or if its group or everybody may write to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = _private_folder(path.expanduser().absolute())

    def lock(self, name: str) -> "FolderLock":
        """Take `<name>.lock` for this process until released or until the process ends.

        Raises Conflict (`LEASE_LOST`) with the `pid` of the process that holds it.
        """
        return FolderLock(self.path / f"{name}.lock")

    def database_url(self, service: str) -> str:
        """The SQLite URL of a service's database."""
        return f"sqlite:///{self.path / f'{service}.db'}"

    def keys(self, service: str) -> Path:
        """The folder of a service's private keys, mode 0700."""
        _private_folder(self.path / "keys")
        return _private_folder(self.path / "keys" / service)


class FolderLock:
    """An exclusive lock on a file; the kernel drops it with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace")
            os.close(self._descriptor)
            raise Conflict(
                f"process {holder or 'unknown'} uses {path.name.removesuffix('.lock')} in "
                f"{path.parent} already: stop it, use it (minara chat), or choose another "
                "MINARA_DATA_DIR",
                reason=ErrorReason.LEASE_LOST,
                metadata={"name": path.name, "pid": holder},
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, str(os.getpid()).encode("ascii"))

    def release(self) -> None:
        """Let the next process in; again is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _private_folder(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=_PRIVATE, exist_ok=True)
    except FileExistsError as error:
        raise _refused(path, "is not a folder") from error
    if path.stat().st_mode & _FOREIGN_WRITE:
        raise _refused(path, "may be written by other users: chmod go-w it")
    return path


def _refused(path: Path, why: str) -> InvalidRequest:
    return InvalidRequest(f"the data folder {path} {why}", metadata={"field": "data_dir"})
