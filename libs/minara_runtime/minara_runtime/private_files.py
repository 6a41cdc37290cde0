"""Files that are their owner's alone, written so that a crash leaves the old or the new one."""

import os
from pathlib import Path

PRIVATE = 0o600


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` in the place of `path`, which holds all of it or is as it was before.

    On disk when it returns. For one writer at a time.
    """
    draft = write_draft(path, content)
    draft.replace(path)
    sync_folder(path.parent)


def write_draft(path: Path, content: bytes) -> Path:
    """A file beside `path` that holds `content`, on disk: what `write_whole` renames."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return draft


def sync_folder(folder: Path) -> None:
    """Make what was created or renamed in `folder` outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
