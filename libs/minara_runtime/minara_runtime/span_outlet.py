"""Where finished spans wait, and the one thread that hands them on, beside the path of a turn."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from minara_runtime.logging import get_logger
from minara_runtime.spans import RecordedSpan

CAPACITY = 16_384
"""Spans held at most; beyond it the oldest go, and are counted."""
EVERY_SECONDS = 1.0
CLOSING_SECONDS = 1.0
_WAKE_AT = CAPACITY // 2
_PORTION = 64
_REST_SECONDS = 0.002
"""Between two portions: a longer hold of the interpreter would be felt in a turn's time."""


class SpanTaker(Protocol):
    """What becomes of finished spans. Called by one thread at a time."""

    def take(self, spans: Sequence[RecordedSpan]) -> None: ...

    def flush(self) -> None:
        """Write out what was taken; called once for many `take`s. Raises nothing."""
        ...

    def close(self) -> None: ...


class SpanOutlet:
    """`put` is a SpanSink; the thread starts with the first span."""

    def __init__(
        self,
        takers: Sequence[SpanTaker],
        *,
        capacity: int = CAPACITY,
        every_seconds: float = EVERY_SECONDS,
        on_lost: Callable[[int], None] | None = None,
    ) -> None:
        self._takers = tuple(takers)
        self._waiting: deque[RecordedSpan] = deque(maxlen=capacity)
        self._every_seconds = every_seconds
        self._wake = threading.Event()
        self._is_closing = False
        self._draining = threading.Lock()
        self._thread: threading.Thread | None = None
        self.lost = 0
        self._told_lost = 0
        self._on_lost = on_lost

    def put(self, span: RecordedSpan) -> None:
        """Keep a span until the thread comes round."""
        waiting = self._waiting
        if len(waiting) == waiting.maxlen:
            self.lost += 1
        waiting.append(span)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="spans", daemon=True)
            self._thread.start()
        elif len(waiting) == _WAKE_AT:
            self._wake.set()

    def flush(self) -> None:
        """Hand on all that waits, now and on the calling thread."""
        self._drain(is_hurried=True)

    def close(self) -> None:
        """Hand on what waits and close every taker; gives up after CLOSING_SECONDS."""
        self._is_closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)
        for taker in self._takers:
            taker.close()

    def _serve(self) -> None:
        while not self._is_closing:
            self._wake.wait(self._every_seconds)
            self._wake.clear()
            self._drain(is_hurried=self._is_closing)
        self._drain(is_hurried=True)

    def _drain(self, *, is_hurried: bool) -> None:
        with self._draining:
            while portion := self._portion():
                for taker in self._takers:
                    taker.take(portion)
                if not is_hurried and self._waiting:
                    self._wake.wait(_REST_SECONDS)
            for taker in self._takers:
                taker.flush()
        self._tell_lost()

    def _tell_lost(self) -> None:
        lost = self.lost - self._told_lost
        if not lost:
            return
        self._told_lost += lost
        get_logger("telemetry").warning("spans_lost", lost=lost)
        if self._on_lost is not None:
            self._on_lost(lost)

    def _portion(self) -> list[RecordedSpan]:
        portion: list[RecordedSpan] = []
        while self._waiting and len(portion) < _PORTION:
            portion.append(self._waiting.popleft())
        return portion
