"""Which paths a file tool may even try: the part of the sandbox that needs no file system."""

import re

from minara_tools.domain.outcomes import SandboxEscapeError

MAX_FILE_BYTES = 20 * 1024 * 1024
MAX_USER_BYTES = 500 * 1024 * 1024
MAX_USER_FILES = 10_000

TEMPORARY_NAME = ".minara-writing"
"""What a file is called while it is written; no path may name it."""

_MAX_PATH_BYTES = 1_024
_MAX_NAME_BYTES = 255
_MAX_NAMES = 32
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]) *(?:\..*)?", re.ASCII | re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def path_names(path: str) -> tuple[str, ...]:
    """The names of a relative path, in order.

    Raises SandboxEscapeError for absolute paths, `..`, NUL and other control characters,
    backslashes, device names, and what is empty or too long.
    """
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    is_strange = path.startswith(("/", "~")) or "\\" in path or _CONTROL.search(path) is not None
    if is_strange or not names or not all(_is_plain(name) for name in names):
        raise SandboxEscapeError(path)
    if len(names) > _MAX_NAMES or _bytes(path) > _MAX_PATH_BYTES:
        raise SandboxEscapeError(path)
    return names


def _is_plain(name: str) -> bool:
    return (
        name not in {"..", TEMPORARY_NAME}
        and _DEVICE.fullmatch(name) is None
        and 0 < _bytes(name) <= _MAX_NAME_BYTES
    )


def _bytes(text: str) -> int:
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return 1 << 20
