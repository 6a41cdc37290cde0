"""Takes variables from files into the environment; acts at import, first line of entry points.

The shell always wins. A `.env` in the working folder may come with a stranger's checkout, so it
gives harmless variables only, unless its owner allowed exactly this file (`minara env allow`).
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import cast

from dotenv import dotenv_values

HARMLESS = frozenset({"MINARA_LOG_LEVEL", "MINARA_TIME_ZONE"})
"""What a `.env` that nobody allowed may set; marked `# harmless` in `.env.example`."""

_LARGEST_FILE = 1024 * 1024
_FOREIGN_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Trust(Enum):
    """What a file may set."""

    ALL = "all"
    HARMLESS = "harmless"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFile:
    """A file's variables in order; `reason` says why it may not set all of them."""

    path: Path
    variables: tuple[tuple[str, str], ...]
    trust: Trust
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEnv:
    """(name, file) of what was taken, and (name, file, reason) of what was not; never values."""

    taken: tuple[tuple[str, str], ...] = ()
    ignored: tuple[tuple[str, str, str], ...] = ()


def plan(shell: Mapping[str, str], files: Sequence[EnvFile]) -> tuple[dict[str, str], LoadedEnv]:
    """The variables to set, and the account of it. Earlier files win, the shell wins over all."""
    chosen: dict[str, str] = {}
    taken: list[tuple[str, str]] = []
    ignored: list[tuple[str, str, str]] = []
    for file in files:
        for name, value in file.variables:
            if name in shell or name in chosen:
                continue
            if _may_set(file.trust, name):
                chosen[name] = value
                taken.append((name, str(file.path)))
            else:
                ignored.append((name, str(file.path), file.reason))
    return chosen, LoadedEnv(taken=tuple(taken), ignored=tuple(ignored))


def allow(path: Path, *, home: Path | None = None) -> None:
    """Trust the `.env` at `path` as it is now; a changed file must be allowed again."""
    folder = _folder(home)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    resolved = path.resolve(strict=True)
    allowed = _allowed(folder)
    allowed[str(resolved)] = _digest(resolved.read_bytes())
    draft = folder / f".allowed-env.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(allowed, file, indent=2, sort_keys=True)
    draft.replace(folder / "allowed-env.json")


def read_files(working_folder: Path, home: Path) -> tuple[EnvFile, ...]:
    """The files that count: `.env` of the working folder, then `env` of `home`/.minara."""
    folder = _folder(home)
    files = (
        _local_file(working_folder / ".env", folder),
        _own_file(folder / "env"),
    )
    return tuple(file for file in files if file is not None)


def _local_file(path: Path, folder: Path) -> EnvFile | None:
    content = _content(path)
    if content is None:
        return None
    is_allowed = _allowed(folder).get(str(path.resolve())) == _digest(content)
    if is_allowed:
        return _file(path, content, Trust.ALL)
    reason = "not harmless; `minara env allow` trusts this file as it is"
    return _file(path, content, Trust.HARMLESS, reason)


def _own_file(path: Path) -> EnvFile | None:
    content = _content(path)
    if content is None:
        return None
    why = _why_unsafe(path)
    return _file(path, content, Trust.NOTHING if why else Trust.ALL, why)


def _file(path: Path, content: bytes, trust: Trust, reason: str = "") -> EnvFile:
    values = dotenv_values(stream=StringIO(content.decode("utf-8", "replace")), interpolate=False)
    variables = tuple((name, value) for name, value in values.items() if value is not None)
    return EnvFile(path=path, variables=variables, trust=trust, reason=reason)


def _may_set(trust: Trust, name: str) -> bool:
    return trust is Trust.ALL or (trust is Trust.HARMLESS and name in HARMLESS)


def _why_unsafe(path: Path) -> str:
    for each in (path, path.parent):
        status = each.stat()
        if status.st_uid != os.getuid():
            return "the file belongs to another user"
        if status.st_mode & _FOREIGN_WRITE:
            return "other users may write to the file or its folder"
    return ""


def _content(path: Path) -> bytes | None:
    """A small regular file's bytes; a pipe, a device or a huge file is as good as none."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _allowed(folder: Path) -> dict[str, str]:
    path = folder / "allowed-env.json"
    content = _content(path)
    if content is None or _why_unsafe(path):
        return {}
    try:
        value: object = json.loads(content)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {str(k): str(v) for k, v in cast("dict[str, str]", value).items()}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _folder(home: Path | None) -> Path:
    return (Path.home() if home is None else home) / ".minara"


def _load() -> LoadedEnv:
    environment = os.environ  # noqa: TID251 - the one module that writes it, before settings read
    variables, account = plan(environment, read_files(Path.cwd(), Path.home()))
    environment.update(variables)
    # gRPC's core reads this when it is imported. What it writes by itself is no line of our logs,
    # and what it complains of comes as an error of a call anyway.
    environment.setdefault("GRPC_VERBOSITY", "NONE")
    return account


loaded = _load()
"""What this process took from files; the start-up log tells it."""

ignored = loaded.ignored
