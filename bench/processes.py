"""Processes of services, each started anew: what they keep in memory is their own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from support.nursery import Child, Nursery, inherited

_END_SECONDS = 10.0


class FreshProcesses(Nursery):
    """Runs `python -m module` itself; the nursery of the tests forks one that has all imported."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @override
    def start(
        self, module: str, environment: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", module],
                cwd=folder,
                env=inherited() | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self._running[process.pid] = process
        return Child(pid=process.pid, nursery=self)

    @override
    def look(self, pid: int) -> str:
        code = self._running[pid].poll()
        if code is None:
            return "running"
        return f"exit {code}" if code >= 0 else f"signal {-code}"

    @override
    def close(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
                process.wait(_END_SECONDS)


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes.split()[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
