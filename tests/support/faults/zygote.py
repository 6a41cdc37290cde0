"""A process that has imported everything and forks the processes of each run.

One JSON object a line on standard input, one a line back: `{"fork": <Start>}` → `{"pid": n}`,
`{"look": pid}` → `{"seen": "running" | "stopped" | "signal 9" | "exit 0"}`. At the end of its input
it kills what it forked and ends. It opens no channel and starts no thread: a fork copies neither.
"""

import gc
import json
import os
import signal
import sys
import traceback
from typing import Any

from support.faults import tools_process, venue_process
from support.faults.orders import Start


class Zygote:
    def __init__(self) -> None:
        self._ended: dict[int, str] = {}
        self._alive: set[int] = set()

    def serve(self) -> None:
        for line in sys.stdin:
            asked: dict[str, Any] = json.loads(line)
            if "fork" in asked:
                answer: dict[str, object] = {"pid": self._fork(Start.from_json(asked["fork"]))}
            else:
                answer = {"seen": self._look(int(asked["look"]))}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _fork(self, start: Start) -> int:
        pid = os.fork()
        if pid:
            self._alive.add(pid)
            return pid
        code = 1
        try:
            _detach(start)
            _MAINS[start.kind](start)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _look(self, pid: int) -> str:
        if pid in self._ended:
            return self._ended[pid]
        found, state = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if found == 0:
            return "running"
        if os.WIFSTOPPED(state):
            return "stopped"
        is_signal = os.WIFSIGNALED(state)
        end = f"signal {os.WTERMSIG(state)}" if is_signal else f"exit {os.WEXITSTATUS(state)}"
        self._ended[pid] = end
        self._alive.discard(pid)
        return end


_MAINS = {"venue": venue_process.main, "tools": tools_process.main}


def _detach(start: Start) -> None:
    """Own files in place of the zygote's pipes."""
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(start.place("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)


def main() -> None:
    tools_process.warm_up()
    gc.collect()
    gc.freeze()
    Zygote().serve()


if __name__ == "__main__":
    main()
