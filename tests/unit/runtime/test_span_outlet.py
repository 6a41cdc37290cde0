"""Finished spans wait beside the path: bounded, in order, and not a moment longer than must be."""

import threading
from collections.abc import Sequence

from opentelemetry.trace import SpanKind

from minara_runtime.span_outlet import SpanOutlet
from minara_runtime.spans import RecordedSpan, SpanMaker


class Kept:
    """A SpanTaker that keeps what it takes, once `gate` is open."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.flushed = threading.Event()
        self.is_closed = False
        self.threads: set[str] = set()

    def take(self, spans: Sequence[RecordedSpan]) -> None:
        self.threads.add(threading.current_thread().name)
        self.names += [span.name for span in spans]

    def flush(self) -> None:
        if self.names:
            self.flushed.set()

    def close(self) -> None:
        self.is_closed = True


def put(outlet: SpanOutlet, count: int) -> None:
    maker = SpanMaker(outlet.put)
    for number in range(count):
        with maker.make(str(number), None, SpanKind.INTERNAL, None):
            pass


def test_spans_are_handed_on_by_another_thread() -> None:
    kept = Kept()
    outlet = SpanOutlet([kept], every_seconds=0.01)
    put(outlet, 3)
    assert kept.flushed.wait(5)
    outlet.close()
    assert kept.threads == {"spans"}
    assert (kept.names, kept.is_closed) == (["0", "1", "2"], True)


def test_a_flush_hands_on_what_waits_before_it_returns() -> None:
    kept = Kept()
    outlet = SpanOutlet([kept], every_seconds=3_600)
    put(outlet, 500)
    outlet.flush()
    assert kept.names == [str(number) for number in range(500)]
    outlet.close()


def test_a_closing_loses_nothing() -> None:
    kept = Kept()
    outlet = SpanOutlet([kept], every_seconds=3_600)
    put(outlet, 500)
    outlet.close()
    assert len(kept.names) == 500


def test_the_oldest_go_when_there_is_no_room_and_they_are_counted() -> None:
    kept, lost = Kept(), list[int]()
    outlet = SpanOutlet([kept], capacity=10, every_seconds=3_600, on_lost=lost.append)
    put(outlet, 25)
    outlet.flush()
    outlet.flush()
    assert kept.names == [str(number) for number in range(15, 25)]
    assert (outlet.lost, lost) == (15, [15])
    outlet.close()
