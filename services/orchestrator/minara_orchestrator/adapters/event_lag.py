"""How long events take from their making, their commit included, to a subscriber."""

from minara.agent.v1 import event_pb2 as event_pb
from minara_core.clock import Clock
from minara_runtime.figures import EVENT_LAG
from minara_runtime.metrics import Metrics


class EventLag:
    """Of one subscription. What was made before it began is a replay, and has no lag."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._begin = clock.now().timestamp() if metrics.is_read else 0.0

    def note(self, oldest: event_pb.TurnEvent) -> None:
        """The oldest event of a batch that is handed over now."""
        if not self._metrics.is_read:
            return
        made = oldest.time.ToNanoseconds() / 1e9
        if made >= self._begin:
            lag = max(0.0, self._clock.now().timestamp() - made)
            self._metrics.record(EVENT_LAG, lag, {})
