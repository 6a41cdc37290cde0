"""Opening a path that cannot lead out of a folder, whoever swaps links meanwhile.

`KernelOpener` lets `openat2` resolve the path, so check and use are one step. `WalkingOpener` is
for systems without it: it opens name after name without following links, reads each link itself
and goes on from its folder. Both follow links that stay inside, refuse absolute ones and other
file systems, answer with the same names, and raise the same errors. Neither creates anything.
"""

import ctypes
import errno
import os
import platform
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from minara_tools.domain.outcomes import SandboxEscapeError, ToolFailed

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""A FIFO then neither blocks its reader nor becomes a controlling terminal."""

_MACHINES = frozenset({"x86_64", "aarch64"})
_OPENAT2 = 437
_NO_XDEV = 0x01
_NO_MAGICLINKS = 0x02
_BENEATH = 0x08
_RACES = 64
_RACED = frozenset({errno.EAGAIN, errno.EINTR})
_MAX_LINKS = 40
_ESCAPES = frozenset({errno.EXDEV, errno.ELOOP, errno.ENXIO, errno.ENODEV})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A descriptor, which the caller closes, and the names that lead to it without any link."""

    descriptor: int
    names: tuple[str, ...]


class BeneathOpener(Protocol):
    def open(self, root: int, path: str, extra_flags: int = 0) -> Opened:
        """Open `path` beneath the folder `root` for reading.

        Raises SandboxEscapeError, and ToolFailed (NOT_FOUND) for what is absent or a dangling link.
        """
        ...


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class KernelOpener:
    """Implements BeneathOpener with `openat2`. Raises NotImplementedError where the kernel or a
    filter in front of it has no such call."""

    def __init__(self) -> None:
        if sys.platform != "linux" or platform.machine() not in _MACHINES:
            raise NotImplementedError("openat2 is known on Linux for x86_64 and aarch64 alone")
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        here = os.open(os.sep, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(self._openat2(here, ".", os.O_DIRECTORY))
            _place(here)
        except OSError as error:
            raise NotImplementedError(f"openat2 does not work here: {error.strerror}") from error
        finally:
            os.close(here)

    def open(self, root: int, path: str, extra_flags: int = 0) -> Opened:
        for _ in range(_RACES):
            try:
                reached = self._openat2(root, path, extra_flags)
            except OSError as error:
                if error.errno not in _RACED:
                    raise _refused(error, path) from error
            else:
                return _named(root, reached, path)
        # The kernel saw a rename beneath the path each time: somebody is at it on purpose.
        raise SandboxEscapeError(path)

    def _openat2(self, root: int, path: str, extra_flags: int) -> int:
        how = _OpenHow(
            flags=FLAGS | extra_flags, mode=0, resolve=_BENEATH | _NO_MAGICLINKS | _NO_XDEV
        )
        descriptor = self._call(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(descriptor)


def _place(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _named(root: int, reached: int, path: str) -> Opened:
    """The kernel knows under which names it found the file."""
    try:
        base, place = _place(root), _place(reached)
    except OSError:
        os.close(reached)
        raise
    if place != base and not place.startswith(f"{base}/"):
        os.close(reached)
        raise SandboxEscapeError(path)
    inside = place.removeprefix(base).strip("/")
    return Opened(descriptor=reached, names=tuple(inside.split("/")) if inside else ())


class WalkingOpener:
    """Implements BeneathOpener name by name with `O_NOFOLLOW`."""

    def open(self, root: int, path: str, extra_flags: int = 0) -> Opened:
        with ExitStack() as stack:
            try:
                return _Walk(stack, root, path, extra_flags).reach()
            except OSError as error:
                raise _refused(error, path) from error


class _Walk:
    """Stands in the last of `folders`; `ahead` holds the names still to go, the next one last."""

    def __init__(self, stack: ExitStack, root: int, path: str, extra_flags: int) -> None:
        self._stack = stack
        self._path = path
        self._extra_flags = extra_flags
        self._device = os.fstat(root).st_dev
        self._folders = [root]
        self._names: list[str] = []
        self._ahead = _reversed_names(path)
        self._links = 0

    def reach(self) -> Opened:
        while self._ahead:
            name = self._ahead.pop()
            if name == "..":
                self._leave()
            elif name not in {"", "."}:
                reached = self._enter(name)
                if reached is not None and not self._ahead:
                    return Opened(descriptor=reached, names=(*self._names, name))
                if reached is not None:
                    self._stack.callback(os.close, reached)
                    self._folders.append(reached)
                    self._names.append(name)
        here = os.open(".", FLAGS | self._extra_flags, dir_fd=self._folders[-1])
        return Opened(descriptor=here, names=tuple(self._names))

    def _leave(self) -> None:
        if len(self._folders) == 1:
            raise SandboxEscapeError(self._path)
        self._folders.pop()
        self._names.pop()

    def _enter(self, name: str) -> int | None:
        """A descriptor of `name`, or None if it was a link, whose names now lie ahead."""
        flags = self._extra_flags if not self._ahead else os.O_DIRECTORY
        try:
            reached = os.open(name, FLAGS | os.O_NOFOLLOW | flags, dir_fd=self._folders[-1])
        except OSError as error:
            self._follow(error, name)
            return None
        if os.fstat(reached).st_dev != self._device:
            os.close(reached)
            raise SandboxEscapeError(self._path)
        return reached

    def _follow(self, error: OSError, name: str) -> None:
        target = _link(error, name, self._folders[-1])
        self._links += 1
        if self._links > _MAX_LINKS or target.startswith("/"):
            raise SandboxEscapeError(self._path) from error
        self._ahead += _reversed_names(target)


def _reversed_names(path: str) -> list[str]:
    return path.split("/")[::-1]


def _link(error: OSError, name: str, folder: int) -> str:
    """What the link `name` says; `error` itself if it is none."""
    # A link opened with O_DIRECTORY | O_NOFOLLOW is ENOTDIR, as is a plain file.
    if error.errno not in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}:
        raise error
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        raise error from None


def _refused(error: OSError, path: str) -> Exception:
    """What the two openers raise for an error of the kernel."""
    if error.errno in _ESCAPES:
        return SandboxEscapeError(path)
    if error.errno in _ABSENT:
        return ToolFailed("NOT_FOUND", f"there is no file {path[:200]!r}")
    if error.errno == errno.EACCES:
        return ToolFailed("NOT_READABLE", f"{path[:200]!r} may not be read")
    return error


def best_opener() -> BeneathOpener:
    """The kernel's resolution where there is one, else the walk."""
    try:
        return KernelOpener()
    except NotImplementedError:
        return WalkingOpener()
