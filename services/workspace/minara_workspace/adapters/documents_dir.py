"""A person's pages as files in a folder. Bytes in, bytes out: nothing we did not author is changed.

A page is a regular file inside the folder; a link that leads out of it is refused with a notice
that the prompt shows. File work runs in a thread, because it blocks.
"""

import asyncio
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import BinaryIO

from minara_core.ids import SINGLE_USER, IdSource, UserId
from minara_workspace.domain.daily_log import DAILY_LOGS, newest
from minara_workspace.domain.document import (
    BOOTSTRAP_DOCUMENT,
    HEARTBEAT_DOCUMENT,
    MAX_BYTES,
    SEEDED_DOCUMENTS,
    Document,
)
from minara_workspace.domain.heartbeat import Heartbeat, render, schedule_raw

_CACHED_PAGES = 256
_State = tuple[int, ...]
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.@-]{0,63}")


class DocumentFolders:
    """Implements Documents. `own` is the single user's folder, others lie below `others`."""

    def __init__(self, own: Path, others: Path, ids: IdSource) -> None:
        self._own = own
        self._others = others
        self._ids = ids
        self._read: dict[Path, tuple[_State, Document]] = {}
        self._heartbeats: dict[UserId, _Written] = {}
        self._seeded: set[UserId] = set()

    async def read(self, user_id: UserId, name: str) -> Document:
        root = self._root(user_id)
        path = root / name
        try:
            state = _state(path.lstat())
        except OSError:
            return Document(name=name, text="")
        known = self._read.get(path)
        if known is not None and known[0] == state:
            return known[1]
        document = await asyncio.to_thread(_read_page, root, name)
        if stat.S_ISREG(state[0]):
            self._remember(path, state, document)
        return document

    async def daily_logs(self, user_id: UserId) -> tuple[Document, ...]:
        return await asyncio.to_thread(_read_logs, self._root(user_id))

    async def seed(self, user_id: UserId) -> None:
        if user_id not in self._seeded:
            await asyncio.to_thread(_seed, self._root(user_id))
            self._seeded.add(user_id)

    async def write_heartbeat(self, user_id: UserId, heartbeat: Heartbeat) -> None:
        root, last = self._root(user_id), self._heartbeats.get(user_id)
        written = await asyncio.to_thread(
            _rewrite_heartbeat, root, heartbeat, self._ids.new(), last
        )
        if len(self._heartbeats) >= _CACHED_PAGES:
            self._heartbeats.clear()
        self._heartbeats[user_id] = written
        page = Document(name=HEARTBEAT_DOCUMENT, text=written.page.decode("utf-8", "replace"))
        self._remember(root / HEARTBEAT_DOCUMENT, written.state, page)

    async def put_aside(self, user_id: UserId, name: str, new_name: str) -> None:
        root = self._root(user_id)
        await asyncio.to_thread(_put_aside, root / name, root / new_name)

    def _remember(self, path: Path, state: "_State", document: Document) -> None:
        if len(self._read) >= _CACHED_PAGES:
            self._read.clear()
        self._read[path] = (state, document)

    def _root(self, user_id: UserId) -> Path:
        return self._own if user_id == SINGLE_USER else self._others / _folder_of(user_id)


@dataclass(frozen=True, slots=True)
class _Written:
    """A page as we wrote it; while its file has this state it holds these bytes."""

    state: _State
    page: bytes

    def stands_at(self, path: Path) -> bool:
        try:
            return _state(path.lstat()) == self.state
        except OSError:
            return False


class _Refused(OSError):
    """A page that may not be opened; the text says why."""


def _folder_of(user_id: UserId) -> str:
    """A folder name that is the id where it can be, and can never lead elsewhere."""
    if _FOLDER_NAME.fullmatch(user_id):
        return user_id
    return f"id-{hashlib.sha256(user_id.encode()).hexdigest()}"


def _state(status: os.stat_result) -> _State:
    return (status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _target(root: Path, name: str) -> Path:
    """Where a page lies, links followed. Raises _Refused when that is not inside `root`."""
    try:
        target = (root / name).resolve()
    except RuntimeError as error:
        raise _Refused(f"{name} is a link to itself") from error
    if not target.is_relative_to(root.resolve()):
        raise _Refused(f"{name} is a link out of the workspace")
    return target


def _open_page(target: Path, name: str) -> BinaryIO:
    """Raises FileNotFoundError, or _Refused for what is no regular file of at most 2 MiB."""
    descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        os.close(descriptor)
        is_file = stat.S_ISREG(status.st_mode)
        why = f"over {MAX_BYTES} bytes" if is_file else "not a regular file"
        raise _Refused(f"{name} is {why}")
    return os.fdopen(descriptor, "rb")


def _read_page(root: Path, name: str) -> Document:
    try:
        with _open_page(_target(root, name), name) as file:
            return Document(name=name, text=file.read(MAX_BYTES).decode("utf-8", "replace"))
    except FileNotFoundError:
        is_dangling = (root / name).is_symlink()
        notice = f"[{name} is a link to nothing: not read]" if is_dangling else ""
        return Document(name=name, text="", notice=notice)
    except _Refused as error:
        return Document(name=name, text="", notice=f"[{error}: not read]")
    except OSError:
        return Document(name=name, text="", notice=f"[{name} could not be read]")


def _read_logs(root: Path) -> tuple[Document, ...]:
    try:
        with os.scandir(_target(root, DAILY_LOGS)) as entries:
            names = newest(each.name for each in entries if each.is_file(follow_symlinks=False))
    except OSError:
        return ()
    return tuple(_read_page(root, f"{DAILY_LOGS}/{name}") for name in names)


def _seed(root: Path) -> None:
    is_new = not root.exists() or not any(root.iterdir())
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    names = (*SEEDED_DOCUMENTS, BOOTSTRAP_DOCUMENT) if is_new else SEEDED_DOCUMENTS
    for name in names:
        template = resources.files("minara_workspace").joinpath(f"templates/{name}").read_bytes()
        try:
            descriptor = os.open(root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(template)


def _rewrite_heartbeat(
    root: Path, heartbeat: Heartbeat, draft_name: str, last: _Written | None
) -> _Written:
    path = root / HEARTBEAT_DOCUMENT
    if last is not None and last.stands_at(path):
        target, old = path, last.page
    else:
        target, old = _heartbeat_page(root)
    page = render(heartbeat, schedule_raw(old))
    draft = target.with_name(f".{target.name}.{draft_name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(page)
        file.flush()
        os.fsync(file.fileno())
        state = _state(os.fstat(file.fileno()))
    draft.replace(target)
    return _Written(state, page)


def _heartbeat_page(root: Path) -> tuple[Path, bytes]:
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = _target(root, HEARTBEAT_DOCUMENT)
    try:
        with _open_page(target, HEARTBEAT_DOCUMENT) as file:
            return target, file.read(MAX_BYTES)
    except FileNotFoundError:
        return target, b""


def _put_aside(path: Path, new_path: Path) -> None:
    try:
        path.rename(new_path)
    except FileNotFoundError:
        return
