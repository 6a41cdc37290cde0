"""The zygote and what it forked, as the harness handles them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.eventually import eventually
from support.faults.orders import Start

TESTS = Path(__file__).parents[2]
START_SECONDS = 20.0


class Nursery:
    """Forks processes through a zygote."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    async def start(self, start: Start) -> "Child":
        """The process, which does not answer yet."""
        start.place("ready").unlink(missing_ok=True)
        start.place("met").unlink(missing_ok=True)
        pid = int((await self._ask({"fork": start.to_json()}))["pid"])
        return Child(start=start, pid=pid, nursery=self)

    async def look(self, pid: int) -> str:
        return str((await self._ask({"look": pid}))["seen"])

    async def _ask(self, asked: dict[str, object]) -> dict[str, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            line = await self._process.stdout.readline()
        assert line, "the zygote is gone"
        return json.loads(line)


@dataclass(frozen=True, slots=True)
class Child:
    start: Start
    pid: int
    nursery: Nursery

    async def ready(self) -> str:
        """Where it answers, once it does."""
        place = self.start.place("ready")

        async def answers() -> bool:
            return place.exists() or not await self.is_alive()

        await eventually(answers, timeout=START_SECONDS, every=0.02)
        assert place.exists(), f"{self.start.who} ended: {self.log()}"
        return place.read_text()

    async def seen(self) -> str:
        return await self.nursery.look(self.pid)

    async def is_alive(self) -> bool:
        return await self.seen() in {"running", "stopped"}

    def has_met(self) -> bool:
        """Whether it reached its crash point."""
        return self.start.place("met").exists()

    async def met(self) -> None:
        """Return once it is dead, or stands still, at its point."""

        async def is_there() -> bool:
            return self.has_met() and await self.seen() != "running"

        await eventually(is_there, timeout=START_SECONDS)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        """End it, whatever it is doing."""
        self._signal(signal.SIGKILL)

        async def is_gone() -> bool:
            return not await self.is_alive()

        await eventually(is_gone, timeout=START_SECONDS)

    def log(self) -> str:
        """The end of what it wrote to standard error."""
        place = self.start.place("log")
        return place.read_text(errors="replace")[-2000:] if place.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


@asynccontextmanager
async def a_nursery(folder: Path) -> AsyncGenerator[Nursery]:
    """A zygote while the body runs; what it forked ends with it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}  # noqa: TID251 - the child's environment is explicit
    with (folder / "zygote.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "support.faults.zygote"),
            env=kept | {"HOME": str(folder), "PYTHONPATH": str(TESTS)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        yield Nursery(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
