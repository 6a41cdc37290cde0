"""A user's sandbox folder on a real file system, with something worth stealing beside it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from minara_core.ids import UserId
from minara_tools.adapters.sandbox_files import SandboxFiles
from minara_tools.adapters.sandbox_files_beneath import (
    BeneathOpener,
    KernelOpener,
    WalkingOpener,
)
from minara_tools.domain.outcomes import SandboxEscapeError, ToolFailed

ME = UserId("local")
SECRET = b"the secret of somebody else"


@dataclass
class Box:
    files: SandboxFiles
    home: Path
    outside: Path

    async def read(self, path: str) -> bytes:
        return await self.files.read(ME, path)

    async def write(self, path: str, content: bytes = b"new") -> str:
        return await self.files.write(ME, path, content)

    async def escapes(self, path: str) -> None:
        """Neither reading nor writing gets through."""
        with pytest.raises(SandboxEscapeError):
            await self.read(path)
        with pytest.raises(SandboxEscapeError):
            await self.write(path)

    async def is_absent(self, path: str) -> None:
        with pytest.raises(ToolFailed) as failed:
            await self.read(path)
        assert failed.value.reason == "NOT_FOUND"


def opener_named(name: str) -> BeneathOpener:
    """The opener "kernel" or "walk"; skips the test where the kernel has none."""
    return kernel_opener() if name == "kernel" else WalkingOpener()


def kernel_opener() -> BeneathOpener:
    try:
        return KernelOpener()
    except NotImplementedError as missing:
        pytest.skip(str(missing))


def a_box(folder: Path, opener: BeneathOpener) -> Box:
    root = folder / "files"
    home, outside = root / "local", folder / "outside"
    home.mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    return Box(files=SandboxFiles(root, opener=opener), home=home, outside=outside)
