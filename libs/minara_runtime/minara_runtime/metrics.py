"""Figures of one process, for whoever reads `/metrics` and for a collector."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation
from opentelemetry.sdk.resources import Resource

from minara_runtime.figures import FIGURES, Figure, Gauge, Labels

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader

_CLOSING_MILLISECONDS = 1_000
_SCOPE = "minara"


class Metrics:
    """Counts, measures and watches. Holds its own provider; no global one is ever set.

    Without a reader nothing is kept and recording costs next to nothing.
    """

    def __init__(
        self, readers: "Sequence[MetricReader]" = (), resource: Resource | None = None
    ) -> None:
        self.is_read = bool(readers)
        self._gauges: dict[str, list[Gauge]] = {}
        self._recorders: dict[str, Counter | Histogram] = {}
        if not self.is_read:
            return
        # Imported when asked for: it costs a start some hundredths of a second.
        from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider

        self._provider = MeterProvider(
            metric_readers=readers,
            resource=resource or Resource({}),
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        self._meter = self._provider.get_meter(_SCOPE)
        for figure in FIGURES:
            if figure.kind != "gauge":
                self._recorders[figure.name] = self._recorder(figure)

    def record(self, figure: Figure, value: float, labels: Labels) -> None:
        """Add to a counter, or put a value into a histogram."""
        recorder = self._recorders.get(figure.name)
        if isinstance(recorder, Counter):
            recorder.add(value, labels)
        elif recorder is not None:
            recorder.record(value, labels)

    def watch(self, gauges: Iterable[Gauge]) -> None:
        """Read these from now on whenever figures are read."""
        if not self.is_read:
            return
        for gauge in gauges:
            known = self._gauges.get(gauge.figure.name)
            if known is not None:
                known.append(gauge)
                continue
            self._gauges[gauge.figure.name] = [gauge]
            self._meter.create_observable_gauge(
                gauge.figure.name,
                callbacks=[self._reading(gauge.figure.name)],
                unit=gauge.figure.unit,
                description=gauge.figure.description,
            )

    def close(self) -> None:
        """Hand out the last figures and stop."""
        if self.is_read:
            self._provider.shutdown(timeout_millis=_CLOSING_MILLISECONDS)

    def _recorder(self, figure: Figure) -> Counter | Histogram:
        if figure.kind == "counter":
            return self._meter.create_counter(figure.name, figure.unit, figure.description)
        return self._meter.create_histogram(
            figure.name,
            figure.unit,
            figure.description,
            explicit_bucket_boundaries_advisory=figure.bounds,
        )

    def _reading(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(options: CallbackOptions) -> Iterable[Observation]:
            del options
            return [
                Observation(value, labels)
                for gauge in self._gauges[name]
                for value, labels in gauge.read()
            ]

        return read
