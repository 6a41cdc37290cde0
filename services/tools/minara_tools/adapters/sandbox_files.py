"""The only opener of sandbox paths: each user's own folder, with quotas and atomic writes."""

import asyncio
import errno
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from minara_core.ids import UserId
from minara_tools.adapters.sandbox_files_beneath import BeneathOpener, Opened, best_opener
from minara_tools.domain.outcomes import SandboxEscapeError, ToolFailed
from minara_tools.domain.sandbox import (
    MAX_FILE_BYTES,
    MAX_USER_BYTES,
    MAX_USER_FILES,
    TEMPORARY_NAME,
    path_names,
)

_PLAIN_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Existing:
    """The file a write replaces, under its own names."""

    names: tuple[str, ...]
    size: int


class SandboxFiles:
    """Implements FileBox under `root`, one folder per user. Blocking work runs in a thread."""

    def __init__(self, root: Path, *, opener: BeneathOpener | None = None) -> None:
        self._root = root
        self._opener = opener or best_opener()

    async def read(self, user_id: UserId, path: str) -> bytes:
        return await asyncio.to_thread(self._read, user_id, path)

    async def write(self, user_id: UserId, path: str, content: bytes) -> str:
        return await asyncio.to_thread(self._write, user_id, path, content)

    def _read(self, user_id: UserId, path: str) -> bytes:
        names = path_names(path)
        with self._folder(user_id) as root, self._opened(root, names) as found:
            size = _plain_file(found, path).st_size
            with os.fdopen(found.descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_FILE_BYTES + 1) if size <= MAX_FILE_BYTES else None
        if content is None or len(content) > MAX_FILE_BYTES:
            raise _too_large(path)
        return content

    def _write(self, user_id: UserId, path: str, content: bytes) -> str:
        names = path_names(path)
        if len(content) > MAX_FILE_BYTES:
            raise _too_large(path)
        try:
            return self._write_locked(user_id, names, content)
        except FileNotFoundError as error:
            raise ToolFailed("NOT_FOUND", f"the folder of {path[:200]!r} went away") from error

    def _write_locked(self, user_id: UserId, names: tuple[str, ...], content: bytes) -> str:
        path = "/".join(names)
        with self._folder(user_id) as root:
            # One writer per user, in all processes: the quota and the temporary name rely on it.
            fcntl.flock(root, fcntl.LOCK_EX)
            existing = self._existing(root, names)
            _check_quota(root, len(content), existing, new_names=len(names))
            if existing is not None:
                names = existing.names
            with self._parent(root, names, path) as parent:
                if existing is None:
                    _refuse_taken(parent.descriptor, names[-1], path)
                _replace(parent.descriptor, names[-1], content)
        return "/".join((*parent.names, names[-1]))

    @contextmanager
    def _folder(self, user_id: UserId) -> Generator[int]:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self._root / _folder_name(user_id)
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        descriptor = os.open(place, _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _opened(self, root: int, names: tuple[str, ...], extra_flags: int = 0) -> Generator[Opened]:
        found = self._opener.open(root, "/".join(names) or ".", extra_flags)
        try:
            yield found
        finally:
            os.close(found.descriptor)

    def _existing(self, root: int, names: tuple[str, ...]) -> _Existing | None:
        try:
            with self._opened(root, names) as found:
                facts = _plain_file(found, "/".join(names))
                return _Existing(names=found.names, size=facts.st_size)
        except SandboxEscapeError:
            raise
        except ToolFailed as failed:
            if failed.reason != "NOT_FOUND":
                raise
            return None

    @contextmanager
    def _parent(self, root: int, names: tuple[str, ...], path: str) -> Generator[Opened]:
        """The folder of the last name; made, with those above it, where it is absent."""
        for depth in range(1, len(names)):
            try:
                with self._opened(root, names[:depth], os.O_DIRECTORY):
                    continue
            except SandboxEscapeError:
                raise
            except ToolFailed:
                with self._opened(root, names[: depth - 1], os.O_DIRECTORY) as above:
                    _make_folder(above.descriptor, names[depth - 1], path)
        with self._opened(root, names[:-1], os.O_DIRECTORY) as parent:
            yield parent


def _folder_name(user_id: UserId) -> str:
    """The id itself where it is a plain name; else a digest, which no plain name looks like."""
    if _PLAIN_USER.fullmatch(user_id):
        return user_id
    return f"={hashlib.sha256(user_id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _plain_file(found: Opened, path: str) -> os.stat_result:
    facts = os.fstat(found.descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise ToolFailed("NOT_A_FILE", f"{path[:200]!r} is a folder")
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        raise SandboxEscapeError(path)
    if facts.st_nlink == 0:
        raise ToolFailed("NOT_FOUND", f"there is no file {path[:200]!r}")
    return facts


def _make_folder(parent: int, name: str, path: str) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError as error:
        # It is there and cannot be entered: a plain file, or a link to nothing.
        raise SandboxEscapeError(path) from error


def _refuse_taken(parent: int, name: str, path: str) -> None:
    """A new file may stand only where nothing stands, not even a link to nothing."""
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=parent, follow_symlinks=False)
        raise SandboxEscapeError(path)


def _check_quota(root: int, size: int, existing: _Existing | None, *, new_names: int) -> None:
    entries, used = _usage(root)
    if existing is None and entries + new_names > MAX_USER_FILES:
        raise _full(f"your folder may hold {MAX_USER_FILES} files and folders")
    if used + size - (existing.size if existing else 0) > MAX_USER_BYTES:
        raise _full(f"your folder may hold {MAX_USER_BYTES // 1024**2} MB")


def _usage(root: int) -> tuple[int, int]:
    """How many files and folders there are, and the bytes of all files."""
    entries = used = 0
    for _, folders, names, folder in os.fwalk(".", dir_fd=root, follow_symlinks=False):
        entries += len(folders) + len(names)
        for name in names:
            with suppress(FileNotFoundError):
                used += os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    return entries, used


def _replace(parent: int, name: str, content: bytes) -> None:
    """Put `content` under `name` in one step, on disk before it is seen."""
    with suppress(FileNotFoundError):
        os.unlink(TEMPORARY_NAME, dir_fd=parent)
    try:
        with os.fdopen(os.open(TEMPORARY_NAME, _NEW_FILE, 0o600, dir_fd=parent), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(TEMPORARY_NAME, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(TEMPORARY_NAME, dir_fd=parent)
        if error.errno in _DISK_FULL:
            raise _full("the disk is full") from error
        raise


def _too_large(path: str) -> ToolFailed:
    limit = MAX_FILE_BYTES // 1024**2
    return ToolFailed("FILE_TOO_LARGE", f"{path[:200]!r} is larger than {limit} MB")


def _full(message: str) -> ToolFailed:
    return ToolFailed("QUOTA_EXCEEDED", message)
