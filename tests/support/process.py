"""A Minara in a process of its own, which a test may kill at a named point."""

import asyncio
import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minara_gateway.client import GatewayClient
from minara_gateway.main import TOKEN_FILE
from minara_gateway.serving import SOCKET_FILE
from support.eventually import eventually
from support.nursery import Nursery

MINARA = Path(sys.executable).parent / "minara"
COMMAND = "minara_gateway.command"
START_SECONDS = 30.0


@dataclass
class MinaraProcess:
    process: asyncio.subprocess.Process
    client: GatewayClient
    hit_file: Path

    async def died_at(self, failpoint: str) -> bool:
        """Wait for the end; whether the process killed itself at this very point."""
        code = await asyncio.wait_for(self.process.wait(), 30)
        return code == -9 and self.hit_file.read_text("ascii") == failpoint


@asynccontextmanager
async def a_process(data_dir: Path, *, failpoint: str = "") -> AsyncGenerator[MinaraProcess]:
    """`minara serve` on a throwaway folder; with `failpoint` it dies there."""
    hit_file = data_dir.parent / f"hit-{failpoint or 'none'}"
    hit_file.unlink(missing_ok=True)
    environment = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 - the child's environment is explicit
        if name in {"PATH", "LANG", "LC_ALL"}
    }
    environment |= {
        "HOME": str(data_dir.parent),
        "MINARA_DATA_DIR": str(data_dir),
        "MINARA_PORT": "18080",
    }
    if failpoint:
        environment |= {"MINARA_FAILPOINT": failpoint, "MINARA_FAILPOINT_FILE": str(hit_file)}
    process = await asyncio.create_subprocess_exec(
        MINARA,
        "serve",
        env=environment,
        cwd=data_dir.parent,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    client: GatewayClient | None = None
    try:
        client = await _client(data_dir, process)
        yield MinaraProcess(process=process, client=client, hit_file=hit_file)
    finally:
        if client is not None:
            await client.aclose()
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), 30)


def minara(data_dir: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, without input; it must not show a traceback.

    It is forked from a process that has imported what it needs, since that takes longer than most
    commands do.
    """
    environment = {"HOME": str(data_dir.parent), "MINARA_DATA_DIR": str(data_dir)} | variables
    done = _nursery().run(COMMAND, arguments, environment, folder=data_dir.parent)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@cache
def _nursery() -> Nursery:
    """One for all tests of this process; it ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="minara-commands-")
    nursery = Nursery(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(nursery.close)
    return nursery


async def _client(data_dir: Path, process: asyncio.subprocess.Process) -> GatewayClient:
    token_file, socket = data_dir / TOKEN_FILE, data_dir / SOCKET_FILE

    async def answers() -> bool:
        assert process.returncode is None, "minara ended before it answered"
        if not (token_file.exists() and socket.exists()):
            return False
        probe = GatewayClient.over_socket(socket, "")
        try:
            return await probe.healthy()
        finally:
            await probe.aclose()

    await eventually(answers, timeout=START_SECONDS, every=0.05)
    return GatewayClient.over_socket(socket, token_file.read_text("ascii").strip())
