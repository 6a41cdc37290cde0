"""A process that has imported every service and forks the processes of clusters.

One JSON object a line on standard input, one a line back: `{"fork": {…}}` with a module, its
arguments, environment, folder, input, log and where errors go → `{"pid": n}`; `{"look": pid}` →
`{"seen": "running"}`, or how it ended: "exit 0", "signal 9". At the end of its input it kills what
it forked. It opens no channel and starts no thread, for a fork copies neither; a child then runs
`python -m <module>` as anybody would, from its first line to the interpreter's own end.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import sys
from typing import Any

SERVICES = ("workspace", "tools", "skills", "orchestrator", "gateway")
_OUTS = ("log", "errors")
_PR_SET_PDEATHSIG = 1


class Zygote:
    def __init__(self) -> None:
        self._ended: dict[int, str] = {}
        self._alive: set[int] = set()

    def serve(self) -> dict[str, Any] | None:
        """Answer until the input ends; in a child, what it shall run."""
        for line in sys.stdin:
            asked: dict[str, Any] = json.loads(line)
            if "fork" in asked:
                pid = os.fork()
                if pid == 0:
                    return asked["fork"]
                self._alive.add(pid)
                answer: dict[str, object] = {"pid": pid}
            else:
                answer = {"seen": self._look(int(asked["look"]))}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return None

    def _look(self, pid: int) -> str:
        if pid in self._ended:
            return self._ended[pid]
        found, state = os.waitpid(pid, os.WNOHANG)
        if found == 0:
            return "running"
        is_signal = os.WIFSIGNALED(state)
        end = f"signal {os.WTERMSIG(state)}" if is_signal else f"exit {os.WEXITSTATUS(state)}"
        self._ended[pid] = end
        self._alive.discard(pid)
        return end


def _become(start: dict[str, Any]) -> None:
    """Own files, folder and environment in place of the zygote's, and an end when it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    given = os.open(start["input"], os.O_RDONLY)
    outs = [os.open(start[to], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for to in _OUTS]
    for number, opened in enumerate((given, *outs)):
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(start["folder"])
    os.environ.clear()  # noqa: TID251 - the child's environment is explicit
    os.environ.update(start["environment"])  # noqa: TID251 - the child's environment is explicit
    sys.argv = [start["module"], *start["arguments"]]


def main() -> None:
    for name in (*(f"minara_{service}.main" for service in SERVICES), "minara_gateway.cli"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    start = Zygote().serve()
    if start is not None:
        _become(start)
        runpy.run_module(start["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
