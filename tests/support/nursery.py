"""Processes of services, forked from one that has imported everything: a start costs little.

Nothing here belongs to an event loop, so that processes may live longer than a test.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
INHERITED = ("PATH", "LANG", "LC_ALL")


@dataclass(frozen=True, slots=True)
class Child:
    """A process of a nursery; it ends when the nursery does, however that ends."""

    pid: int
    nursery: "Nursery"

    def seen(self) -> str:
        """ "running", also while it is stopped, or how it ended: "exit 0", "signal 9"."""
        return self.nursery.look(self.pid)

    @property
    def is_alive(self) -> bool:
        return self.seen() == "running"

    def send(self, number: signal.Signals) -> None:
        """A signal; nothing if it has ended."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """Forks processes through a zygote, which starts with the first of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._zygote: subprocess.Popen[str] | None = None

    def start(
        self, module: str, environment: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        """`python -m module` in `folder`; what it prints is appended to `log`. It inherits where
        programs lie and the language, nothing else."""
        return self._forked(module, (), environment, folder, (os.devnull, log, log))

    def run(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], *, folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """`python -m module arguments` to its end, within a minute, with no input."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            out, errors = Path(name) / "out", Path(name) / "errors"
            files = (os.devnull, out, errors)
            child = self._forked(module, arguments, environment, folder, files)
            waited, end = threading.Event(), time.monotonic() + 60
            while (seen := child.seen()) == "running":
                assert time.monotonic() < end, f"{module} {arguments} does not end"
                waited.wait(0.005)
            kind, number = seen.split()
            code = int(number) if kind == "exit" else -int(number)
            return subprocess.CompletedProcess(
                [module, *arguments], code, out.read_text("utf-8"), errors.read_text("utf-8")
            )

    def _forked(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        files: tuple[str, Path, Path],
    ) -> Child:
        order: dict[str, object] = {
            "module": module,
            "arguments": list(arguments),
            "environment": inherited() | dict(environment),
            "folder": str(folder),
            "input": files[0],
            "log": str(files[1]),
            "errors": str(files[2]),
        }
        return Child(pid=int(self._ask({"fork": order})["pid"]), nursery=self)

    def look(self, pid: int) -> str:
        return self._ask({"look": pid})["seen"]

    def close(self) -> None:
        """End the zygote, and with it everything it forked."""
        if self._zygote is None:
            return
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.close()
        self._zygote.wait(30)
        self._zygote.stdout.close()
        self._zygote = None

    def _ask(self, asked: dict[str, object]) -> dict[str, str]:
        with self._turn:
            if self._zygote is None:
                self._zygote = self._started()
            assert self._zygote.stdin is not None
            assert self._zygote.stdout is not None
            self._zygote.stdin.write(json.dumps(asked) + "\n")
            self._zygote.stdin.flush()
            line = self._zygote.stdout.readline()
        assert line, f"the zygote is gone: {self._log.read_text(errors='replace')[-2000:]}"
        return json.loads(line)

    @property
    def _log(self) -> Path:
        return self._folder / "zygote.log"

    def _started(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "support.zygote"],
                env=inherited() | {"HOME": str(self._folder), "PYTHONPATH": str(TESTS)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )


def inherited() -> dict[str, str]:
    """Of this process's environment, what any process may have."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}  # noqa: TID251 - the child's environment is explicit


@contextmanager
def a_nursery(folder: Path) -> Generator[Nursery]:
    nursery = Nursery(folder)
    try:
        yield nursery
    finally:
        nursery.close()
