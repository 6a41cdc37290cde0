"""A person's pages as files in a folder. Bytes in, bytes out: nothing we did not author is changed.

A page is a regular file inside the folder; a link that leads out of it is refused with a notice
that the prompt shows. File work runs in a thread, because it blocks.
"""

import asyncio
import os
import stat
from importlib import resources
from pathlib import Path

from minara_core.ids import SINGLE_USER, IdSource, UserId
from minara_workspace.domain.document import (
    BOOTSTRAP_DOCUMENT,
    HEARTBEAT_DOCUMENT,
    MAX_BYTES,
    SEEDED_DOCUMENTS,
    Document,
)
from minara_workspace.domain.heartbeat import Heartbeat, render, schedule_raw

_CACHED_PAGES = 256


class DocumentFolders:
    """Implements Documents. `own` is the single user's folder, others lie below `others`."""

    def __init__(self, own: Path, others: Path, ids: IdSource) -> None:
        self._own = own
        self._others = others
        self._ids = ids
        self._read: dict[Path, tuple[tuple[int, ...], Document]] = {}
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
            if len(self._read) >= _CACHED_PAGES:
                self._read.clear()
            self._read[path] = (state, document)
        return document

    async def seed(self, user_id: UserId) -> None:
        if user_id not in self._seeded:
            await asyncio.to_thread(_seed, self._root(user_id))
            self._seeded.add(user_id)

    async def write_heartbeat(self, user_id: UserId, heartbeat: Heartbeat) -> None:
        path = self._root(user_id) / HEARTBEAT_DOCUMENT
        await asyncio.to_thread(_rewrite_heartbeat, path, heartbeat, self._ids.new())

    async def put_aside(self, user_id: UserId, name: str, new_name: str) -> None:
        root = self._root(user_id)
        await asyncio.to_thread(_put_aside, root / name, root / new_name)

    def _root(self, user_id: UserId) -> Path:
        return self._own if user_id == SINGLE_USER else self._others / user_id


def _state(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _read_page(root: Path, name: str) -> Document:
    try:
        target = (root / name).resolve(strict=True)
        if not target.is_relative_to(root.resolve()):
            return Document(
                name=name, text="", notice=f"[{name} is a link out of the workspace: not read]"
            )
        descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return Document(name=name, text="")
    except (OSError, RuntimeError):
        return Document(name=name, text="", notice=f"[{name} could not be read]")
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return Document(name=name, text="", notice=f"[{name} is not a regular file: not read]")
        if status.st_size > MAX_BYTES:
            return Document(
                name=name, text="", notice=f"[{name} is over {MAX_BYTES} bytes: not read]"
            )
        return Document(name=name, text=file.read(MAX_BYTES).decode("utf-8", "replace"))


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


def _rewrite_heartbeat(path: Path, heartbeat: Heartbeat, draft_name: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        schedule = schedule_raw(path.read_bytes())
    except FileNotFoundError:
        schedule = schedule_raw(b"")
    draft = path.with_name(f".{path.name}.{draft_name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(render(heartbeat, schedule))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _put_aside(path: Path, new_path: Path) -> None:
    try:
        path.rename(new_path)
    except FileNotFoundError:
        return
