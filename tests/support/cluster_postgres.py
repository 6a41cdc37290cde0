"""A PostgreSQL server of a test's own, which it may stop, crash and freeze."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Literal

from support.postgres import Cluster, SharedCluster, find_binaries, run_as_server

_COMMITTED_IS_KEPT = "ALTER SYSTEM SET synchronous_commit = on"
"""Unlike the throwaway server of all suites, this one is crashed on purpose."""


class OwnPostgres:
    """Gone when its last user is, however that ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._shared = SharedCluster(folder)
        self.cluster: Cluster = self._shared.join()
        self._data = Path(json.loads((folder / "postgres.json").read_text())["folder"]) / "data"

    async def prepare(self) -> None:
        """What it has committed survives a crash from now on."""
        await self.cluster.command(_COMMITTED_IS_KEPT)
        await self.cluster.command("SELECT pg_reload_conf()")

    async def restart(self, mode: Literal["fast", "immediate"]) -> None:
        """`fast` disconnects everybody and rolls back, `immediate` is a crash."""
        await self._control("restart", "-m", mode)

    async def stop(self, mode: Literal["fast", "immediate"]) -> None:
        await self._control("stop", "-m", mode)

    async def start(self) -> None:
        await self._control("start", "-l", str(self._data.parent / "log"))

    def freeze(self) -> None:
        """SIGSTOP to all its processes: connections stay, nobody answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        self._shared.leave()

    async def _control(self, *arguments: str) -> None:
        command = [find_binaries() / "pg_ctl", "-D", self._data, "-w", *arguments]
        await asyncio.to_thread(run_as_server, command)

    def _signal(self, number: signal.Signals) -> None:
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (postmaster, *map(int, children)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
