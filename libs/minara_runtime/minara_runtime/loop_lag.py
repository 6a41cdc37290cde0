"""How late the event loop is, asked from outside of it: a loop that is late cannot say so."""

import asyncio
import threading
import time

from minara_runtime.figures import LOOP_LAG
from minara_runtime.metrics import Metrics

EVERY_SECONDS = 0.5


class LoopLag:
    """Asks `loop` now and then, until `close` or until the loop is closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        *,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        self._loop = loop
        self._metrics = metrics
        self._every_seconds = every_seconds
        self._closing = threading.Event()
        threading.Thread(target=self._ask, name="loop-lag", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _ask(self) -> None:
        while not self._closing.wait(self._every_seconds):
            asked = time.perf_counter()
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # closed
            while not answered.wait(self._every_seconds) and not self._closing.is_set():
                continue
            self._metrics.record(LOOP_LAG, time.perf_counter() - asked, {})
